"""Any image file becomes RGB pixels, or a named error."""

import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from data.archives import read_bytes
from data.errors import ImageError, UserError
from data.formats import SNIFFED, readable_formats

MAX_PIXELS = 100_000_000  # a larger image is taken for a decompression bomb
MOST_PIXELS = {"JPEG2000": 50_000_000}  # its decoder takes three times the memory of the others
MIN_SIDE = 8
LARGEST_FILE = 800 * 2**20  # bytes: MAX_PIXELS of four 16-bit channels without compression
STRIP = 4_000_000  # pixels converted at once: a large image costs its pixels twice, no further copies


def decode_rgb(source: Path | bytes, short_side: int | None = None) -> NDArray[np.uint8]:
    """Decode to RGB [h, w, 3] uint8: EXIF orientation applied, transparency on white, 16 bits scaled to 8.

    Args:
        source: a file, a member of an archive, or the bytes of an image.
        short_side: a JPEG is decoded at a reduced scale (1/2, 1/4, 1/8) as long as its short side stays at or above this; the
            result is not resized further.

    Raises:
        ImageError: missing, empty, not an image, truncated, over MAX_PIXELS or under MIN_SIDE pixels a side.
    """
    name = Path("<bytes>") if isinstance(source, bytes) else Path(source)
    try:
        content = source if isinstance(source, bytes) else read_bytes(name, LARGEST_FILE + 1)
    except OSError as error:
        raise ImageError(name, f"cannot be read ({error.strerror or error})") from error
    except UserError as error:
        raise ImageError(name, f"cannot be read: {error}") from error
    if not content:
        raise ImageError(name, "is empty")
    if len(content) > LARGEST_FILE:
        raise ImageError(name, f"is larger than {LARGEST_FILE // 2**20} MiB")
    formats = readable_formats(content[:SNIFFED])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # we check the size and damage ourselves
            with Image.open(io.BytesIO(content), formats=formats) as image:
                return _to_rgb(image, name, short_side)
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        raise ImageError(name, "is not an image that can be read") from error
    except Image.DecompressionBombError as error:
        raise ImageError(name, f"is larger than {MAX_PIXELS:,} pixels") from error
    except Exception as error:  # damaged files raise anything, from OSError to struct.error
        raise ImageError(name, f"is damaged ({error})") from error


def _to_rgb(image: Image.Image, name: Path, short_side: int | None) -> NDArray[np.uint8]:
    width, height = image.size
    most = MOST_PIXELS.get(image.format or "", MAX_PIXELS)
    if width * height > most:
        raise ImageError(name, f"is {width} x {height}, larger than {most:,} pixels")
    if min(width, height) < MIN_SIDE:
        raise ImageError(name, f"is {width} x {height}; the short side must be at least {MIN_SIDE} pixels")
    if short_side is not None:
        scale = min(width, height) / short_side
        image.draft(None, (int(width / scale), int(height / scale)) if scale > 1 else image.size)
    ImageOps.exif_transpose(image, in_place=True)
    strips = _strips(image)
    deep = image.mode.startswith("I") or image.mode == "F"
    top = 65535.0 if deep and max(np.asarray(image.crop(box)).max() for box in strips) > 255 else 255.0
    if len(strips) == 1:
        return _strip_to_rgb(image, top)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for box in strips:
        pixels[box[1] : box[3]] = _strip_to_rgb(image.crop(box), top)
    return pixels


def _strips(image: Image.Image) -> list[tuple[int, int, int, int]]:
    """Left, upper, right, lower of whole rows, some STRIP pixels each."""
    rows = max(1, STRIP // image.width)
    return [(0, row, image.width, min(row + rows, image.height)) for row in range(0, image.height, rows)]


def _strip_to_rgb(image: Image.Image, top: float) -> NDArray[np.uint8]:
    """RGB [h, w, 3]; `top` is white in modes of more than 8 bits."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image, top)
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _eight_bits(image: Image.Image, top: float) -> Image.Image:
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0)
    return Image.fromarray(np.clip(values / top * 255, 0, 255).round().astype(np.uint8), mode="L")
