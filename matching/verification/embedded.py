"""What files embed besides pixels, notes, profile and film: depth maps, thermal data, signatures, clipping paths, map places."""

import hashlib
import re
import struct
from collections.abc import Iterator

from PIL import Image, TiffImagePlugin

MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # in what JPEG codes, where a part begins
START_OF_SCAN, END, PHOTOSHOP = 0xDA, 0xD9, b"Photoshop 3.0\0"
APPS = range(0xE0, 0xF0)
KNOWN_APPS = {  # that are read elsewhere, or say how to decode
    0xE0: (b"JFIF\0", b"JFXX\0", b"AVI1"),
    0xE1: (b"Exif\0", b"http://ns.adobe.com/xap/1.0/\0"),
    0xE2: (b"ICC_PROFILE\0", b"MPF\0", b"FPXR\0"),
    0xEC: (b"Ducky", b"[picture info]"),
    0xED: (PHOTOSHOP, b"Adobe_CM"),
    0xEE: (b"Adobe",),
}
PATHS = range(2000, 2999)  # Photoshop's numbers of clipping paths
KNOWN_TAGS = {*range(254, 348), *range(512, 516), *range(519, 522), *range(529, 533)}
KNOWN_TAGS |= {700, 33432, 33723, 34377, 34665, 34675, 34853}
KNOWN_CHUNKS = {*b"IHDR PLTE IDAT IEND tRNS cHRM gAMA iCCP sBIT sRGB bKGD hIST pHYs sPLT tIME tEXt zTXt iTXt eXIf".split()}
KNOWN_CHUNKS |= {*b"acTL fcTL fdAT iDOT vpAg orNT".split()}
SRGB = {  # what these chunks of a PNG say of pixels in sRGB, in 1/100,000: the gamma; x and y of white, red, green and blue
    b"gAMA": (45455,),
    b"cHRM": (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000),
}
SRGB_TOLERANCE = 60  # programs round
OTHER_COLOURS = tuple(f"the chunk {kind.decode()}" for kind in SRGB)  # the parts that show a PNG in other colours than sRGB
Embedded = frozenset[tuple[str, str]]  # names, in words that follow "it has", and digests


def list_embedded(image: Image.Image, content: bytes) -> Embedded:
    """Return what a file embeds; of other formats than JPEG, PNG and TIFF, nothing is known."""
    parts: list[tuple[str, bytes]] = []
    if content[:2] == b"\xff\xd8":
        parts = [*_list_jpeg_parts(content)]
    elif content[:4] == b"\x89PNG":
        parts = [*_list_png_parts(content)]
    elif isinstance(image, TiffImagePlugin.TiffImageFile):
        parts = [(f"the TIFF tag {tag}", repr(value).encode()) for tag, value in image.tag_v2.items() if tag not in KNOWN_TAGS]
    return frozenset((name, hashlib.sha256(part).hexdigest()) for name, part in parts)


def _list_jpeg_parts(content: bytes) -> Iterator[tuple[str, bytes]]:
    place = 2
    while (found := MARKER.search(content, place)) is not None:
        kind, start = content[found.start() + 1], found.end()
        if kind == END:
            if content[start:].strip(b"\0\xff\r\n "):
                yield "something behind the picture", content[start:]
            return
        place = start + int.from_bytes(content[start : start + 2], "big")
        part = content[start + 2 : place]
        if kind == 0xED and part.startswith(PHOTOSHOP):
            yield from (("a clipping path", path) for path in _list_paths(part[len(PHOTOSHOP) :]))
        elif kind in APPS and not part.startswith(KNOWN_APPS.get(kind, ())):
            name = re.match(rb"[\w:/.]{2,}", part)
            yield f"the part APP{kind - APPS.start}{f' ({name[0].decode()})' if name else ''}", part


def _list_paths(resources: bytes) -> Iterator[bytes]:
    """Yield the clipping paths among Photoshop's resources."""
    place = 0
    while resources[place : place + 4] == b"8BIM":
        (number,) = struct.unpack(">H", resources[place + 4 : place + 6].ljust(2, b"\0"))
        named = place + 7 + resources[place + 6] if place + 6 < len(resources) else len(resources)
        named += (named - place) % 2
        length = int.from_bytes(resources[named : named + 4], "big")
        if number in PATHS:
            yield resources[named + 4 : named + 4 + length]
        place = named + 4 + length + length % 2


def _list_png_parts(content: bytes) -> Iterator[tuple[str, bytes]]:
    place, kind, found = 8, b"", dict[bytes, bytes]()
    while place + 12 <= len(content) and kind != b"IEND":
        length = int.from_bytes(content[place : place + 4], "big")
        kind, part = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        if kind not in KNOWN_CHUNKS:
            yield f"the chunk {kind.decode('latin-1')}", part
        found.setdefault(kind, part)
        place += 12 + length
    if not found.keys() & {b"iCCP", b"sRGB"}:  # which count instead of the others (PNG, third edition, 4.3)
        yield from (
            (f"the chunk {name.decode()}", found[name]) for name in SRGB if name in found and not _says_srgb(found[name], name)
        )
    if kind == b"IEND" and content[place:].strip(b"\0\r\n "):
        yield "something behind the picture", content[place:]


def _says_srgb(part: bytes, kind: bytes) -> bool:
    usual = SRGB[kind]
    numbers = [int.from_bytes(part[place : place + 4], "big") for place in range(0, len(part), 4)]
    near = (abs(one - other) <= SRGB_TOLERANCE for one, other in zip(numbers, usual, strict=False))
    return len(numbers) == len(usual) and all(near)
