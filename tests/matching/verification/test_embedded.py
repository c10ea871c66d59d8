"""What a PNG file embeds besides its pixels: gamma or primaries of another space, unknown chunks, bytes behind the end."""

import io
import struct
import zlib

import pytest
from PIL import Image

from image_copies.matching.verification.embedded import list_embedded

SRGB_PRIMARIES = 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000
ADOBE_RGB_PRIMARIES = 31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000


def add(png: bytes, chunk: bytes, content: bytes) -> bytes:
    """Put a chunk behind the header of a PNG."""
    written = struct.pack(">I", len(content)) + chunk + content + struct.pack(">I", zlib.crc32(chunk + content))
    return png[:33] + written + png[33:]


def encode(chunk: bytes = b"", content: bytes = b"", behind: bytes = b"") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stream, "PNG")
    return (add(stream.getvalue(), chunk, content) if chunk else stream.getvalue()) + behind


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (encode(), []),
        (encode(b"gAMA", struct.pack(">I", 45455)), []),
        (encode(b"gAMA", struct.pack(">I", 100_000)), ["the chunk gAMA"]),
        (encode(b"cHRM", struct.pack(">8I", *SRGB_PRIMARIES)), []),
        (encode(b"cHRM", struct.pack(">8I", *ADOBE_RGB_PRIMARIES)), ["the chunk cHRM"]),
        (add(encode(b"cHRM", struct.pack(">8I", *ADOBE_RGB_PRIMARIES)), b"sRGB", b"\0"), []),  # sRGB counts instead
        (add(encode(b"gAMA", struct.pack(">I", 100_000)), b"sRGB", b"\0"), []),
        (encode(b"prVt", b"diary"), ["the chunk prVt"]),
        (encode(behind=b"PK\3\4" + bytes(range(60))), ["something behind the picture"]),
        (encode(behind=b"\0\0\r\n"), []),
        (encode()[:-10], []),
    ],
)
def test_what_a_png_embeds_is_named(content: bytes, names: list[str]) -> None:
    with Image.open(io.BytesIO(content)) as image:
        assert sorted(name for name, _ in list_embedded(image, content)) == names
