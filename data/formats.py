"""The picture formats that can be read, known by the first bytes of a file, and the names they usually have."""

import importlib
import re
from functools import cache

SNIFFED = 64  # bytes at the beginning of a file that tell its format
_ENDINGS = (
    ".jpg .jpeg .jpe .jfif .png .apng .webp .bmp .dib .gif .tif .tiff .avif .avifs .jp2 .j2k .jpx .jpf .jpc "
    ".ppm .pgm .pbm .pnm .pfm .qoi .heic .heif .hif .heics .jxl"
)
IMAGE_ENDINGS = frozenset(_ENDINGS.split())
# what Pillow may try: no EPS and the like, which start programs
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "QOI")
PLUGINS = {"HEIF": "pillow_heif", "JXL": "pillow_jxl"}  # wheels that ship their library
SIGNATURES = {
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "WEBP": rb"RIFF....WEBP",
    "GIF": rb"GIF8[79]a",
    "BMP": rb"BM....\0\0\0\0",
    "TIFF": rb"II\*\0|MM\0\*|II\+\0|MM\0\+",
    "AVIF": rb"....ftypavi[fs]|....ftypmi[fa]1.{0,40}avif",
    "HEIF": rb"....ftyp(?:hei[cxms]|hev[cxms])|....ftypm[is][fa]1.{0,40}hei[cx]",
    "JPEG2000": rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51",
    "PPM": rb"P[1-6fF][\s#]",
    "QOI": rb"qoif",
    "JXL": rb"\xff\x0a|\0\0\0\x0cJXL \r\n\x87\n",
}
PATTERNS = {name: re.compile(pattern, re.DOTALL) for name, pattern in SIGNATURES.items()}


def format_of(beginning: bytes) -> str | None:
    """Return the format, one of `SIGNATURES`, that a file's first `SNIFFED` bytes show; None for anything else."""
    return next((name for name, pattern in PATTERNS.items() if pattern.match(beginning)), None)


def readable_formats(beginning: bytes) -> tuple[str, ...]:
    """Return what Pillow may try on a file with these first bytes; loads the plugin that their format takes."""
    name = format_of(beginning)
    return (*FORMATS, name) if name in PLUGINS and _load_plugin(PLUGINS[name]) else FORMATS


@cache
def _load_plugin(module: str) -> bool:
    try:
        plugin = importlib.import_module(module)
    except ImportError:
        return False  # no wheel for this machine: such files are reported as pictures that cannot be read
    if module == "pillow_heif":
        plugin.register_heif_opener(thumbnails=False)
    return True
