"""How a picture was compressed: its format, and the steps of the coefficients of its 8 × 8 blocks."""

import io
import re
import warnings
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from image_copies.data.formats import SIGNATURE_BYTES, detect_format

SIDE = 8  # pixels of a side of JPEG's blocks
GREY = np.array([0.299, 0.587, 0.114], np.float32)
COSINES = np.asarray(
    cv2.dct(np.eye(SIDE, dtype=np.float32), flags=cv2.DCT_ROWS).T, np.float32
)  # of JPEG's blocks
# least step that shows in coefficients, and coefficients of which enough is known
MIN_STEP, MIN_PHASES = 3, 1000
MIN_COMB = 0.1  # mean cosine of their phases in what was made of such a file: that of others is about 0
LOW = 3  # frequencies, down and across, whose steps say how coarse a compression is
LOSSLESS = "lossless"
LOSSLESS_FORMS = ("PNG", "BMP", "TIFF", "PPM", "QOI")
# in the first bytes: WebP without loss, and an AVIF or HEIF file that keeps red, green and blue, without loss by other colours
KEPT_EXACTLY = re.compile(rb"RIFF.{4}WEBP.*VP8L|.{4}ftyp.*nclx.{4}\0\0", re.DOTALL)
HEADER_BYTES = 4096


class Tables(NamedTuple):
    """How a JPEG file was compressed.

    Attributes:
        steps: Those of its coefficients, row by row, by table; the first is that of brightness.
        sampling: Pillow's number of its sampling.
        mode: Pillow's.
    """

    steps: list[list[int]]
    sampling: int
    mode: str


def find_coding(content: bytes) -> str:
    """Return the format of a file by its content, LOSSLESS where that keeps pixels as they are."""
    form = detect_format(content[:SIGNATURE_BYTES]) or ""
    return LOSSLESS if form in LOSSLESS_FORMS or KEPT_EXACTLY.match(content[:HEADER_BYTES]) else form


def read_tables(content: bytes) -> Tables | None:
    """Return how a JPEG file was compressed; None for files of other formats and damaged ones."""
    try:
        with warnings.catch_warnings(action="ignore"), JpegImageFile(io.BytesIO(content)) as image:
            # in a file they have any order
            steps = [image.quantization[number] for number in sorted(image.quantization)]
            return Tables(steps, get_sampling(image), image.mode)
    except Exception:  # Pillow raises anything for damaged files
        return None


def read_steps(content: bytes) -> NDArray[np.float32] | None:
    """Return the steps of the coefficients of a file's brightness [8, 8], 1 for none; None where they are not known."""
    if tables := read_tables(content):
        return np.array(tables.steps[0], np.float32).reshape(SIDE, SIDE)
    return np.ones((SIDE, SIDE), np.float32) if find_coding(content) == LOSSLESS else None


def measure_step(content: bytes) -> float | None:
    """Return the geometric mean of the steps of a file's low frequencies, 1 for none; None where they are not known."""
    steps = read_steps(content)
    return None if steps is None else float(np.exp(np.log(steps[:LOW, :LOW]).mean()))


def transform_blocks(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the coefficients [rows, columns, 8, 8] of the whole blocks of a picture [h, w]."""
    rows, columns = (side // SIDE for side in grey.shape)
    blocks = grey[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE).swapaxes(1, 2)
    return np.asarray(COSINES @ blocks @ COSINES.T, np.float32)


def measure_phases(pixels: NDArray[np.uint8], steps: NDArray[np.float32]) -> float:
    """Return how near coefficients of a picture [h, w, 3] lie to multiples of a file's steps: 1 for all; NaN if few are known."""
    sizes = np.abs(transform_blocks(pixels @ GREY))
    shown = (sizes >= steps / 2) & (steps >= MIN_STEP)
    shown[..., 0, 0] = False
    phases = np.cos(2 * np.pi * sizes / steps)[shown]
    return float(phases.mean()) if phases.size >= MIN_PHASES else np.nan
