"""What a PNG file embeds besides its pixels: a gamma that shows them otherwise, unknown chunks, bytes behind the end."""

import io
import struct
import zlib

import pytest
from PIL import Image

from image_copies.matching.verification.embedded import list_embedded


def encode(chunk: bytes = b"", content: bytes = b"", behind: bytes = b"") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stream, "PNG")
    written = struct.pack(">I", len(content)) + chunk + content + struct.pack(">I", zlib.crc32(chunk + content)) if chunk else b""
    return stream.getvalue()[:33] + written + stream.getvalue()[33:] + behind


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (encode(), []),
        (encode(b"gAMA", struct.pack(">I", 45455)), []),
        (encode(b"gAMA", struct.pack(">I", 100_000)), ["the chunk gAMA"]),
        (encode(b"prVt", b"diary"), ["the chunk prVt"]),
        (encode(behind=b"PK\3\4" + bytes(range(60))), ["something behind the picture"]),
        (encode(behind=b"\0\0\r\n"), []),
        (encode()[:-10], []),
    ],
)
def test_what_a_png_embeds_is_named(content: bytes, names: list[str]) -> None:
    with Image.open(io.BytesIO(content)) as image:
        assert sorted(name for name, _ in list_embedded(image, content)) == names
