"""What a file is made of besides pixels: all that not every writer of its format makes is named."""

import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image, TiffImagePlugin

from image_copies.matching.verification.directories import iterate_directories
from image_copies.matching.verification.parts import COLOURS, METADATA, list_parts

BEHIND, FILM = "something behind the picture", "a film behind the picture"
ARCHIVE = b"PK\3\4 diary.zip"
MOVIE = b"\0\0\0\x18ftypmp42film"
GEO = bytes.fromhex("b14bf8bd083d4b43a5ae8cd7d5a6ce03") + b"II*\0 georeference"


def encode(form: str = "JPEG", **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.new("RGBA" if options.pop("alpha", False) else "RGB", (16, 16), "#c81e1e80").save(stream, form, **options)
    return stream.getvalue()


def jpeg(*segments: tuple[int, bytes], behind: bytes = b"") -> bytes:
    content = encode()
    written = b"".join(bytes([0xFF, kind]) + struct.pack(">H", len(part) + 2) + part for kind, part in segments)
    return content[:2] + written + content[2:] + behind


def png(chunk: bytes = b"", content: bytes = b"", behind: bytes = b"") -> bytes:
    plain = encode("PNG")
    written = struct.pack(">I", len(content)) + chunk + content + struct.pack(">I", zlib.crc32(chunk + content))
    return plain[:33] + (written if chunk else b"") + plain[33:] + behind


def resource(number: int, data: bytes) -> tuple[int, bytes]:
    return 0xED, b"Photoshop 3.0\x008BIM" + struct.pack(">H", number) + b"\0\0" + struct.pack(">I", len(data)) + data


def webp(chunk: bytes) -> bytes:
    content = encode("WEBP")
    return content[:4] + struct.pack("<I", len(content) - 8 + len(chunk)) + content[8:] + chunk


def box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data) + 8) + kind + data


def tiff(**options: Any) -> bytes:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[270] = "longer than what fits into an entry"
    return encode("TIFF", tiffinfo=tags, **options)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (encode("JPEG", quality=50, progressive=True, optimize=True, dpi=(300, 300), comment="noted elsewhere"), []),
        (jpeg((0xE2, b"MPF\0" + bytes(40)), (0xEC, b"Ducky\0\1\0\4\0\0\0\x3c\0\0"), (0xEE, b"Adobe\0d\0\0\0\0\0")), []),
        (jpeg(resource(1005, b"\0H\0\0\0\1\0\1"), behind=b"\0\0\r\n"), []),
        (jpeg((0xEC, b"Ducky\0\2\0\6Anna\0\0")), ["the part APP12"]),
        (jpeg((0xE1, b"FLIR\0\1heat")), ["the part APP1"]),
        (jpeg((0xE1, b"http://ns.adobe.com/xmp/extension/\0GDepth")), ["the part APP1"]),
        (jpeg((0xE2, b"FPXR\0sound")), ["the part APP2"]),
        (jpeg(resource(2000, b"clipping path")), ["Photoshop's resource 2000"]),
        (jpeg((0xED, b"Photoshop 3.0\0diary")), ["damaged resources"]),
        (jpeg(behind=ARCHIVE), [BEHIND]),
        (jpeg(behind=MOVIE), [FILM]),
        (jpeg()[:-2], []),
        (png(), []),
        (png(b"tIME", b"\x07\xe8\1\1\1\1\1"), []),
        (png(b"prVt", b"diary"), ["the part prVt"]),
        (png(b"iTXt", b"Title\0\1\0\0\0damaged"), ["what cannot be read"]),
        (png(behind=ARCHIVE), [BEHIND]),
        (png(behind=b"\0\0\r\n"), []),
        (png()[:-10], []),
        (encode("WEBP"), []),
        (webp(b"Note\5\0\0\0diary\0"), ["the part Note"]),
        (encode("WEBP") + ARCHIVE, [BEHIND]),
        (encode("BMP"), []),
        (encode("GIF"), ["what cannot be read"]),
        (encode("BMP") + ARCHIVE, [BEHIND]),
        (tiff(), []),
        (tiff(compression="tiff_lzw") + ARCHIVE, [BEHIND]),
        (encode("TIFF", big_tiff=True), ["what cannot be read"]),
        (encode("JPEG2000"), []),
        (encode("JPEG2000") + box(b"uuid", GEO), ["the part uuid"]),
        (encode("JPEG2000", no_jp2=True), ["what cannot be read"]),
        (encode("AVIF", alpha=True), []),
        (encode("AVIF", alpha=True).replace(b"auxid:1", b"auxid:2").replace(b":alpha\0", b":depth\0"), ["the auxiliary picture"]),
        (encode("AVIF", xmp=b"<x/>"), []),
        (encode("AVIF", xmp=b"<x/>").replace(b"/rdf+xml", b"/pdf+xml"), ["the item mime"]),
        (encode("AVIF") + box(b"mpvd", MOVIE), ["the part mpvd"]),
        (encode("AVIF") + MOVIE, [FILM]),
    ],
)
def test_what_not_every_writer_makes_is_named(content: bytes, names: list[str]) -> None:
    with Image.open(io.BytesIO(content)) as image:
        found = sorted(name for name, _ in list_parts(image, content) if name not in METADATA | {COLOURS})
    assert len(found) == len(names) and all(map(str.startswith, found, names)), found


def test_directories_that_claim_the_same_bytes_again_and_again_are_not_read() -> None:
    """They would fill the memory: 400 kB of directories that claim 100 GB."""
    entries = b"".join(struct.pack("<HHII", tag, 7, 5_000_000, 8) for tag in range(20_000))
    content = b"II*\0" + struct.pack("<IH", 8, 20_000) + entries + bytes(5_000_000)
    with pytest.raises(ValueError, match="where others do"):
        list(iterate_directories(content))
