"""What a picture file is made of besides its coded pixels: metadata, which others read, and all that nobody here knows.

What is not listed here as made by any writer of a format is yielded: a part that is not known may be all that matters.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from PIL import Image

from image_copies.data.formats import SIGNATURE_BYTES, detect_format

from .directories import iterate_directories, iterate_thumbnails

Part = tuple[str, bytes]  # one of the names below, or words that follow "it has"; and the bytes
EXIF = "EXIF"
TIFF = "TIFF"
XMP = "XMP"
IPTC = "IPTC"
TEXT = "text"
COMMENT = "comment"
COLOURS = "colours"
METADATA = {EXIF, TIFF, XMP, IPTC, TEXT, COMMENT}  # a text: its name, a zero, itself in UTF-8
BEHIND = "something behind the picture"
FILM = "a film behind the picture"
UNREADABLE = "what cannot be read"
THUMBNAIL = "a thumbnail of another picture"  # if it is one (`thumbnails.py`)
# what damaged parts raise, and formats not known here
DAMAGED = struct.error, zlib.error, ValueError, LookupError, TypeError
PADDING = b"\0\xff\r\n "
FILMS = re.compile(rb".{4}ftyp", re.DOTALL)
MAX_TEXT_BYTES = 2**24  # of a compressed text
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # in what JPEG codes, where a part begins
END = 0xD9
EXIF_MARK = b"Exif\0\0"  # begins EXIF data in some formats
JFXX = b"\xe0JFXX\0\x10"  # begins a thumbnail
RESOURCES = b"\xedPhotoshop 3.0\0"  # a marker and its part begin so
SEGMENTS_READ = {b"\xe1Exif\0\0": EXIF, b"\xe1http://ns.adobe.com/xap/1.0/\0": XMP, b"\xfe": COMMENT}
# what says how pixels are coded, versions, thumbnails, where more pictures lie; the profile is read elsewhere
SEGMENTS_WRITTEN = re.compile(
    rb"[\xc0-\xcf\xd9-\xdd]|\xe0(?:JFIF|JFXX|AVI1)|\xe2(?:MPF|ICC_PROFILE)\0|\xecDucky\0\x01\0\x04.{4}\0\0\Z|\xedAdobe_CM|\xeeAdobe.{7}\Z",
    re.DOTALL,
)
# what Photoshop writes into every file: resolution, thumbnails, settings of printing and of its windows, ids, digests
RESOURCES_WRITTEN = {
    1005, 1010, 1011, 1013, 1016, 1024, 1026, 1030, 1032, 1037, 1039, 1041,
    1044, 1049, 1050, 1057, 1061, 1062, 1064, 1069, 1072, 1077, 1082, 1083, 10000,
}  # fmt: skip
RESOURCES_READ = {1028: IPTC, 1058: EXIF, 1060: XMP}
THUMBNAILS, THUMBNAIL_HEAD = (1033, 1036), 28  # resources, and the bytes before their JPEG
# of PNG, WebP, HEIC, AVIF, JPEG 2000 and JPEG XL
CHUNKS_WRITTEN = re.compile(
    rb"IHDR|PLTE|IDAT|IEND|tRNS|iCCP|sBIT|bKGD|hIST|pHYs|tIME|acTL|fcTL|fdAT|iDOT|vpAg|VP8[ LX]|ALPH|ANIM|ANMF|ICCP"
    rb"|jP  |JXL |ftyp|mdat|rreq|jp2c|jxl[clp]|ihdr|bpcc|pclr|cmap|cdef|res "
)
CHUNKS_READ = {b"eXIf": EXIF, b"EXIF": EXIF, b"XMP ": XMP, b"xml ": XMP}
COLOUR_CHUNKS = (b"gAMA", b"cHRM", b"sRGB", b"cICP", b"colr")
TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
PROFILES = {b"exif": EXIF, b"APP1": EXIF, b"xmp": XMP}  # that a text of a PNG holds in hexadecimal digits
FIRST_BOX_BYTES = 12  # of JPEG 2000 and JPEG XL, before the kind of file
XMP_BOX = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
# its kind, and that of what is no picture
ITEM = re.compile(rb"infe(?:\x02.{7}|\x03.{9})(.{4})[^\0]*\0([^\0]*)", re.DOTALL)
ITEMS_WRITTEN = re.compile(rb"hvc1|av01|grid|iden|Exif|mimeapplication/rdf\+xml")
AUXILIARY = re.compile(rb"auxC\0{4}(?!.{0,60}alpha|urn:mpeg:hevc:2015:auxid:1\0)([^\0]*)", re.DOTALL)
NCLX = re.compile(rb"colr(nclx.{4})", re.DOTALL)


def list_parts(image: Image.Image, content: bytes) -> list[Part]:
    """Return what a file holds besides pixels, without what is padding alone."""
    form = detect_format(content[:SIGNATURE_BYTES]) or ""
    found: list[Part] = []
    if form in ("AVIF", "HEIF"):
        found = [(name, bytes(image.info.get(key) or b"")) for name, key in ((EXIF, "exif"), (XMP, "xmp"))]
    try:
        found += SPLITTERS[form](content)
    except DAMAGED:
        found.append((UNREADABLE, content))
    found = [(name, data.removeprefix(EXIF_MARK)) for name, data in found]
    for data in [data for name, data in found if name == EXIF]:
        with suppress(*DAMAGED):
            found += [(THUMBNAIL, thumbnail) for thumbnail in iterate_thumbnails(data)]
    return [(name, data) for name, data in found if data.strip(PADDING)]


def _name_rest(rest: bytes) -> Part:
    """Return what lies behind a picture."""
    rest = rest.strip(PADDING) if not FILMS.match(rest) else rest
    return (FILM if FILMS.match(rest) else BEHIND), rest


def _split_jpeg(content: bytes) -> Iterator[Part]:
    place = 2
    kind = 0
    resources = b""
    while kind != END and (found := MARKER.search(content, place)) is not None:
        kind, start = content[found.start() + 1], found.end()
        place = start if kind == END else start + int.from_bytes(content[start : start + 2], "big")
        part = bytes([kind]) + content[start + 2 : place]
        beginning = next(filter(part.startswith, SEGMENTS_READ), b"")
        if part.startswith(RESOURCES):
            resources += part[len(RESOURCES) :]
        elif beginning:
            yield SEGMENTS_READ[beginning], part[len(beginning) :]
        elif part.startswith(JFXX):
            yield THUMBNAIL, part[len(JFXX) :]
        elif not SEGMENTS_WRITTEN.match(part):
            yield f"the part APP{kind - 0xE0}", part
    yield from _split_resources(resources)
    if kind == END:
        yield _name_rest(content[place:])


def _split_resources(resources: bytes) -> Iterator[Part]:
    """Split Photoshop's resources."""
    place = 0
    while resources[place : place + 4] == b"8BIM":
        number, named = struct.unpack_from(">HB", resources, place + 4)
        start = place + 7 + named + (7 + named) % 2
        (length,) = struct.unpack_from(">I", resources, start)
        data = resources[start + 4 : start + 4 + length]
        place = start + 4 + length + length % 2
        if number in RESOURCES_READ:
            yield RESOURCES_READ[number], data
        elif number in THUMBNAILS:
            yield THUMBNAIL, data[THUMBNAIL_HEAD:]
        elif number not in RESOURCES_WRITTEN:
            yield f"Photoshop's resource {number}", data
    yield "damaged resources of Photoshop", resources[place:]


def _split_tiff(content: bytes) -> Iterator[Part]:
    yield TIFF, content
    end = 0
    for directory in iterate_directories(content):
        end = max(end, directory.end)
        texts = {tag: value for tag, value in directory.tags.items() if isinstance(value, bytes)}
        yield XMP, texts.get(700, b"")
        yield IPTC, texts.get(33723, b"")
        yield from _split_resources(texts.get(34377, b""))
    yield _name_rest(content[end:])


def _split_png(content: bytes) -> Iterator[Part]:
    place, kind = 8, b""
    while kind != b"IEND" and place + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        part = content[place + 8 : place + 8 + length]
        yield from _split_text(kind, part) if kind in TEXT_CHUNKS else _name_chunk(kind, part)
        place += 12 + length
    yield _name_rest(content[place:])


def _split_webp(content: bytes) -> Iterator[Part]:
    place, end = 12, 8 + int.from_bytes(content[4:8], "little")
    while place + 8 <= end:
        kind, length = struct.unpack_from("<4sI", content, place)
        yield from _name_chunk(kind, content[place + 8 : place + 8 + length])
        place += 8 + length + length % 2
    yield _name_rest(content[place:])


def _name_chunk(kind: bytes, data: bytes) -> Iterator[Part]:
    """Name a chunk or box, if not every writer makes it."""
    if kind in COLOUR_CHUNKS:
        yield COLOURS, kind + data
    elif not CHUNKS_WRITTEN.match(kind):
        yield CHUNKS_READ.get(kind, f"the part {kind.decode('latin-1')}"), data


def _split_text(kind: bytes, part: bytes) -> Iterator[Part]:
    """Read a text of a PNG, of which some hold metadata of other formats."""
    name, _, text = part.partition(b"\0")
    compressed = kind == b"zTXt" or (kind == b"iTXt" and text[:1] == b"\1")
    if kind == b"iTXt":
        text = text[2:].split(b"\0", 2)[-1]
    if compressed:
        text = zlib.decompressobj().decompress(text.removeprefix(b"\0"), MAX_TEXT_BYTES)
    words = text.split()
    if name == b"XML:com.adobe.xmp":
        yield XMP, text
    elif name.startswith(b"Raw profile type ") and words[0] in PROFILES:
        yield PROFILES[words[0]], bytes.fromhex(b"".join(words[2:]).decode())
    else:
        yield TEXT, name + b"\0" + (text if kind == b"iTXt" else text.decode("latin-1").encode())


def _split_boxes(content: bytes) -> Iterator[Part]:
    """Split the boxes of HEIC, AVIF, JPEG 2000 and JPEG XL."""
    if content.startswith(b"\xff"):
        raise ValueError("coded pixels without boxes, of which the end is not known")
    place = 0
    while place + 8 <= len(content) and (place <= FIRST_BOX_BYTES or not FILMS.match(content, place)):
        length, kind = struct.unpack_from(">I4s", content, place)
        head = 16 if length == 1 else 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", content, place + 8)
        end = place + length if length >= head else len(content)
        data = content[place + head : end]
        if kind == b"jp2h":
            yield from _split_boxes(data)
        elif kind == b"meta":
            yield from _split_items(data, content)
        elif data.startswith(XMP_BOX):
            yield XMP, data.removeprefix(XMP_BOX)
        else:
            yield from [(EXIF, data[4:])] if kind == b"Exif" else _name_chunk(kind, data)
        place = end
    yield _name_rest(content[place:])


def _split_items(meta: bytes, content: bytes) -> Iterator[Part]:
    """Name the items of a HEIC or AVIF that are no pictures, and pictures that are not shown, such as depths."""
    for kind, media in ITEM.findall(meta):
        if not ITEMS_WRITTEN.match(kind + media):
            yield f"the item {kind.decode('latin-1')}", content
    for name in AUXILIARY.findall(meta):
        yield f"the auxiliary picture {name.decode('latin-1')}", content
    for colours in NCLX.findall(meta)[:1]:
        yield COLOURS, colours


def _split_bmp(content: bytes) -> Iterator[Part]:
    (length,) = struct.unpack_from("<I", content, 2)
    yield _name_rest(content[length:])


SPLITTERS: dict[str, Callable[[bytes], Iterator[Part]]] = {
    "JPEG": _split_jpeg,
    "PNG": _split_png,
    "WEBP": _split_webp,
    "BMP": _split_bmp,
    "TIFF": _split_tiff,
    **dict.fromkeys(("AVIF", "HEIF", "JPEG2000", "JXL"), _split_boxes),
}
