"""Decode any image file to RGB pixels, or raise an `ImageError` that names the problem."""

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .arrays import UInt8s
from .errors import ImageError, StorageError, UserError, line_of
from .files import write_text
from .formats import SIGNATURE_BYTES, describe_missing_decoder, readable_formats
from .sources.archives import read_bytes


def as_uint8(pixels: NDArray[Any] | None) -> UInt8s:
    """Return `pixels` [h, w, …] unchanged, typed as uint8: OpenCV's functions preserve the dtype, but their annotations do not.

    Raises:
        ValueError: `pixels` is None, which OpenCV returns for bytes that it cannot decode.
    """
    if pixels is None:
        raise ValueError("OpenCV cannot decode these bytes as an image")
    return pixels


MAX_IMAGE_PIXELS = 100_000_000  # larger images are refused as decompression bombs
MAX_PIXELS_BY_FORMAT = {"JPEG2000": 50_000_000}  # its decoder needs three times the memory of the others
MIN_SIDE_PIXELS = 8
MAX_FILE_BYTES = 800 * 2**20  # MAX_IMAGE_PIXELS with four uncompressed 16-bit channels
# converted at once, within the caches: 14 ms for 12 megapixels, 74 ms with 4,000,000
PIXELS_PER_STRIP = 250_000
# of a progressive JPEG, over its scans: each costs as much as an image, in few bytes
MAX_SCANNED_PIXELS = 3_000_000_000
MIN_DEVIATION = 2.0  # grey levels: standard deviation of a frame that shows something
# levels by which what is seen on white differs from it, and least share that is seen
MIN_CONTRAST, MIN_SEEN = 24.0, 0.02
# what was decoded of a picture, by the width and height that the decoder gave
Decoded = dict[tuple[int, int], UInt8s]


def decode_rgb(
    source: Path | bytes, short_side: int | None = None, decoded: Decoded | None = None
) -> UInt8s:
    """Decode to RGB uint8 [h, w, 3]: EXIF orientation applied, transparency composited on white, deeper channels scaled to 8.

    White drawings on a transparent ground are composited on black. Of an animation whose first frame shows nothing, as one that
    fades in from black, the frame that shows most is decoded. What white is in deeper channels, `find_white` says.

    Args:
        source: A file, a member of an archive (`archive.zip/name/inside.jpg`), or the encoded bytes of an image.
        short_side: In pixels; a JPEG is decoded at the smallest of the scales 1, 1/2, 1/4 and 1/8 that keeps its short side at or
            above this. The result is not resized further.
        decoded: What was decoded of the same source before; the result is one of these where the scale is the same, and joins
            them. None to keep nothing.

    Raises:
        ImageError: the file is missing, empty, larger than `MAX_FILE_BYTES`, not an image or damaged, or the image has more than
            `MAX_IMAGE_PIXELS` pixels, a side shorter than `MIN_SIDE_PIXELS`, or as a JPEG too many progressive scans.
        StorageError: the object store that holds the file cannot be used.
    """
    name = Path("<bytes>") if isinstance(source, bytes) else source
    try:
        content = source if isinstance(source, bytes) else read_bytes(name, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ImageError(name, f"cannot be read ({error.strerror or error})") from error
    except StorageError:
        raise
    except UserError as error:
        raise ImageError(name, f"cannot be read: {error}") from error
    with _open(name, content) as image:
        if not decoded:
            check_scans(image, name, content)
        return _to_rgb(image, name, short_side, {} if decoded is None else decoded)


def measure_size(content: bytes) -> tuple[int, int]:
    """Return the width and height of an encoded image, by its header.

    Raises:
        ImageError: it is empty, larger than `MAX_FILE_BYTES`, or not an image.
    """
    with _open(Path("<bytes>"), content) as image:
        return image.size


@contextmanager
def _open(name: Path, content: bytes) -> Iterator[Image.Image]:
    """Open an image; whatever a damaged one raises, also while it is decoded, is an ImageError."""
    if not content:
        raise ImageError(name, "is empty")
    if len(content) > MAX_FILE_BYTES:
        raise ImageError(name, f"is larger than {MAX_FILE_BYTES // 2**20} MiB")
    formats = readable_formats(content[:SIGNATURE_BYTES])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # size and damage are checked here
            with Image.open(io.BytesIO(content), formats=formats) as image:
                yield image
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        problem = describe_missing_decoder(content[:SIGNATURE_BYTES]) or "is not an image that can be read"
        raise ImageError(name, problem) from error
    except Image.DecompressionBombError as error:
        raise ImageError(name, f"is larger than {MAX_IMAGE_PIXELS:,} pixels") from error
    except Exception as error:  # damaged files raise all kinds of errors, from OSError to struct.error
        raise ImageError(name, f"is damaged ({error})") from error


def check_scans(image: Image.Image, name: Path, content: bytes) -> None:
    """Refuse a JPEG of so many scans that decoding it takes minutes; cameras and encoders write a dozen.

    Raises:
        ImageError: There are more.
    """
    if image.format in ("JPEG", "MPO"):
        # never within the pixels, where a zero follows each 255; a seventh of the time of bytes.count
        even, odd = (np.frombuffer(content, "<u2", (len(content) - first) // 2, first) for first in (0, 1))
        scans = np.count_nonzero(even == 0xDAFF) + np.count_nonzero(odd == 0xDAFF)
        if scans * image.width * image.height > MAX_SCANNED_PIXELS:
            raise ImageError(
                name,
                f"goes over its {image.width} x {image.height} pixels in {scans:,} scans, too many to decode",
            )


def _to_rgb(image: Image.Image, name: Path, short_side: int | None, decoded: Decoded) -> UInt8s:
    width, height = image.size
    limit = MAX_PIXELS_BY_FORMAT.get(image.format or "", MAX_IMAGE_PIXELS)
    if width * height > limit:
        raise ImageError(name, f"is {width} x {height}, larger than {limit:,} pixels")
    if min(width, height) < MIN_SIDE_PIXELS:
        raise ImageError(
            name, f"is {width} x {height}; the short side must be at least {MIN_SIDE_PIXELS} pixels"
        )
    _seek_shown_frame(image)
    if short_side is not None:
        scale = min(width, height) / short_side
        image.draft(None, (int(width / scale), int(height / scale)) if scale > 1 else image.size)
    given = image.size
    if given not in decoded:
        decoded[given] = _convert(image)
    return decoded[given]


def _seek_shown_frame(image: Image.Image) -> None:
    """Seek the frame that shows most, of those of the first one's size, where the first frame shows nothing."""
    if image.format == "MPO" or _is_deep(image) or not getattr(image, "is_animated", False):
        return
    size = image.size
    best = 0
    most = 0.0
    with suppress(Exception):  # what is damaged behind a frame costs that one nothing
        for number in range(MAX_IMAGE_PIXELS // (size[0] * size[1])):
            image.seek(number)
            deviation = float(np.asarray(image.convert("L")).std())
            if image.size == size and deviation > most:
                best, most = number, deviation
            if number == 0 and deviation > MIN_DEVIATION:
                return
    image.seek(best)


def _convert(image: Image.Image) -> UInt8s:
    """Decode to RGB uint8 [h, w, 3], upright."""
    ImageOps.exif_transpose(image, in_place=True)
    white, ground = find_white(image), _find_ground(image)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for box in _cut_strips(image):
        pixels[box[1] : box[3]] = _strip_to_rgb(image.crop(box), white, ground)
    return pixels


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info


def find_white(image: Image.Image) -> float:
    """Return the value of white: of floats 1, 255 or 65,535, of integers 2ⁿ − 1 from 255, the first that no value exceeds.

    Raises:
        ValueError: No value is finite.
    """
    if not _is_deep(image):
        return 255.0
    strips = (np.asarray(image.crop(box), np.float32) for box in _cut_strips(image))
    largest = max(strip.max(where=np.isfinite(strip), initial=-np.inf) for strip in strips)
    if largest == -np.inf:
        raise ValueError("no value is finite")
    if image.mode == "F":
        return next((white for white in (1.0, 255.0) if largest <= white), 65535.0)
    return 2.0 ** max(8, int(max(largest, 0)).bit_length()) - 1


def _find_ground(image: Image.Image) -> str:
    """Return the colour that a picture is composited on: black where next to nothing of it would be seen on white."""
    if not _is_transparent(image):
        return "white"
    shown = seen = 0.0
    for box in _cut_strips(image):
        *colours, alpha = np.moveaxis(np.asarray(image.crop(box).convert("RGBA"), np.float32), 2, 0)
        contrast = (255 - np.min(colours, axis=0)) * alpha / 255
        shown += float(alpha.sum())
        seen += float(alpha[contrast > MIN_CONTRAST].sum())
    return "black" if seen < MIN_SEEN * shown else "white"


def _cut_strips(image: Image.Image) -> list[tuple[int, int, int, int]]:
    """Return boxes (left, upper, right, lower) of whole rows, about PIXELS_PER_STRIP pixels each."""
    rows = max(1, PIXELS_PER_STRIP // image.width)
    return [(0, row, image.width, min(row + rows, image.height)) for row in range(0, image.height, rows)]


def _strip_to_rgb(image: Image.Image, white: float, ground: str) -> UInt8s:
    """Convert to RGB uint8 [h, w, 3]; `white` is its value in modes of more than 8 bits, `ground` what shows through."""
    if _is_deep(image):
        image = _to_eight_bits(image, white)
    if _is_transparent(image):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, ground), image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _to_eight_bits(image: Image.Image, white: float) -> Image.Image:
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0, posinf=0.0)
    return Image.fromarray(np.clip(values / white * 255, 0, 255).round().astype(np.uint8), mode="L")


SMALL_SIDE = 64  # pixels: what cannot be read fails at any size


def list_unreadable(target: Path, images: Iterable[Path]) -> None:
    """Write `file<tab>reason`, one line for each image; remove `target` where there are none.

    The images are looked at once more, one after the other: whoever found that they cannot be read did so in many processes.
    """
    lines = [f"{line_of(path)}\t{find_problem(path)}\n" for path in images]
    if lines:
        write_text(target, "".join(lines))
    else:
        target.unlink(missing_ok=True)


def find_problem(source: Path | bytes) -> str:
    """Return why an image cannot be decoded, in words."""
    try:
        decode_rgb(source, short_side=SMALL_SIDE)
    except ImageError as error:
        return line_of(error.problem)
    return "can be read now"
