"""Pictures as squares of a network's input size, and other resizing; without torch."""

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np

from .arrays import UInt8s
from .decode import Decoded, as_uint8, decode_rgb
from .errors import ImageError
from .sources.containers import read_or_say

# the short side is then the square's side / 1.5, which is what training shows of it: no detail is lost
LONGEST_ASPECT = 2.25


def decode_squares(
    content: bytes, sizes: Iterable[int], decoded: Decoded | None = None
) -> dict[int, tuple[UInt8s, bool]]:
    """Decode an encoded image to RGB uint8 [3, size, size] of each size; with False, zeros where it cannot be read.

    It is decoded once for all sizes for which the decoder gives the same scale: those of a JPEG that its reduced scales do not
    tell apart, and all of any other format. `decoded` is as for `decode_rgb`.
    """
    decoded = {} if decoded is None else decoded
    return {size: decode_square(content, size, decoded) for size in sizes}


def decode_square(source: Path | bytes, size: int, decoded: Decoded | None = None) -> tuple[UInt8s, bool]:
    """Decode and resize to RGB uint8 [3, size, size]; with False, zeros where the image cannot be read.

    `decoded` holds what was decoded of the same source before, as for `decode_rgb`.
    """
    try:
        pixels = decode_rgb(source, size, decoded)
    except ImageError:
        return np.zeros((3, size, size), np.uint8), False
    return resize_square(pixels, size).transpose(2, 0, 1), True


def read_or_nothing(path: Path) -> bytes:
    """Return a file's bytes; none of a file that cannot be read, which is then as unreadable as an empty one."""
    return read_or_say(path)[0] or b""


def resize_square(pixels: UInt8s, size: int) -> UInt8s:
    """Resize [h, w, 3] to [size, size, 3] ignoring the aspect ratio, as the authors' code does.

    Area interpolation if the short side shrinks, bilinear otherwise.
    """
    shrinks = min(pixels.shape[:2]) > size
    return as_uint8(
        cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    )


def resize_own_aspect(pixels: UInt8s, size: int) -> UInt8s:
    """Resize [h, w, 3] to at most the area of a square of `size` pixels, keeping the aspect ratio up to `LONGEST_ASPECT`.

    A longer image is squashed to `LONGEST_ASPECT`. Interpolation as in `resize_square`.
    """
    aspect = min(max(pixels.shape[1] / pixels.shape[0], 1 / LONGEST_ASPECT), LONGEST_ASPECT)
    width = int(size * aspect**0.5)
    height = int(size / aspect**0.5)
    shrinks = min(pixels.shape[:2]) > min(width, height)
    return as_uint8(
        cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    )


def shrink(pixels: UInt8s, long_side: int) -> UInt8s:
    """Downscale an image [h, w, 3] to a long side of `long_side` pixels, keeping the aspect ratio; never enlarge it."""
    factor = long_side / max(pixels.shape[:2])
    if factor >= 1:
        return pixels
    size = max(8, round(pixels.shape[1] * factor)), max(8, round(pixels.shape[0] * factor))
    return as_uint8(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
