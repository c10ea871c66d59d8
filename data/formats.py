"""The supported image formats: their signatures (first bytes of a file) and usual file extensions."""

import importlib
import re
from functools import cache

SIGNATURE_BYTES = 64  # length of the beginning of a file that identifies its format
_ENDINGS = (
    ".jpg .jpeg .jpe .jfif .png .apng .webp .bmp .dib .gif .tif .tiff .avif .avifs .jp2 .j2k .jpx .jpf .jpc "
    ".ppm .pgm .pbm .pnm .pfm .qoi .heic .heif .hif .heics .jxl"
)
IMAGE_ENDINGS = frozenset(_ENDINGS.split())
# formats that Pillow may try: not EPS and the like, which start external programs
PILLOW_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "QOI")
# packages whose wheels include the decoder; the first that is installed is taken. The second of each has GPL terms: not required
PLUGINS = {"HEIF": ("pi_heif", "pillow_heif"), "JXL": ("pylibjxl", "pillow_jxl")}
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


def detect_format(beginning: bytes) -> str | None:
    """Return the format, a key of `SIGNATURES`, of a file that begins with these `SIGNATURE_BYTES` bytes; None if unknown."""
    return next((name for name, pattern in PATTERNS.items() if pattern.match(beginning)), None)


def readable_formats(beginning: bytes) -> tuple[str, ...]:
    """Return the formats that Pillow may try on a file with this beginning; loads the plugin that the format needs."""
    name = detect_format(beginning)
    return (*PILLOW_FORMATS, name) if name in PLUGINS and _load_plugin(name) else PILLOW_FORMATS


def describe_missing_decoder(beginning: bytes) -> str | None:
    """Return what to install to decode a file with this beginning, in words; None if its format needs nothing more."""
    name = detect_format(beginning)
    if name not in PLUGINS or _load_plugin(name):
        return None
    return f"is {name}, which no installed package decodes: python -m pip install {PLUGINS[name][0].replace('_', '-')}"


@cache
def _load_plugin(name: str) -> bool:
    """Load a package that decodes the format, a key of `PLUGINS`; return whether one is installed."""
    for module in PLUGINS[name]:
        try:
            plugin = importlib.import_module(module)
        except ImportError:
            continue  # not installed: such files are listed as unreadable images, with what to install
        if name == "HEIF":
            plugin.register_heif_opener(thumbnails=False)
        elif module == "pylibjxl":
            plugin.register_pillow()
        return True
    return False
