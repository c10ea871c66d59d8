"""How coarsely a picture was compressed, also before it was saved again: JPEG leaves its steps in what 8 × 8 blocks hold."""

import io
import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from image_copies.data.decode import decode_rgb
from image_copies.data.sources.archives import read_image_bytes

SIDE = 8  # pixels of a side of JPEG's blocks
MEASURED_SIDE = 1024  # side in pixels of the middle part that is measured
FREQUENCIES = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2))  # down and across
LARGEST_STEP = 64
SMALLEST_RATIO = 1.5  # an earlier step shows if it is at least this many times the file's own
MIN_COMB = 0.5  # mean cosine of the coefficients' phases from which they are multiples of a step
MIN_COEFFICIENTS = 60  # coefficients, none near 0, that a step is found from
DIGITS, MIN_VARIOUS = 3, 0.25  # share of coefficients that differ by digits: a drawing has the same edges again and again
MIN_SHARE = 0.5  # share of the frequencies in which an earlier step must show
GREY = np.array([0.299, 0.587, 0.114], np.float32)
COSINES = np.array(
    [[np.cos((2 * x + 1) * k * np.pi / 16) * (np.sqrt(0.125) if k == 0 else 0.5) for x in range(8)] for k in range(8)], np.float32
)


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


@dataclass(frozen=True)
class Quantisation:
    """How coarsely a picture was compressed.

    Attributes:
        step: Geometric mean of the steps of its low frequencies, of the coarsest compression that shows; 1 for none.
        saved_again: Whether it shows an earlier compression than that of its file.
    """

    step: float
    saved_again: bool


def measure_quantisation(path: Path) -> Quantisation:
    """Measure how coarsely a picture was compressed.

    Raises:
        ImageError: it cannot be read.
    """
    content = read_image_bytes(path)
    pixels = decode_rgb(content)
    top, left = (max(0, (side - MEASURED_SIDE) // 2) // SIDE * SIDE for side in pixels.shape[:2])
    grey = pixels[top : top + MEASURED_SIDE, left : left + MEASURED_SIDE] @ GREY
    own = _read_steps(content)
    # the blocks of a picture that was mirrored or turned begin at what is left of its sides
    offsets = list(itertools.product(*({0, side % SIDE} for side in pixels.shape[:2])))
    measured = [_measure_coefficients(grey[down:, across:]) for down, across in offsets]
    earlier = max(([_find_step(*each) for each in zip(blocks, own, strict=True)] for blocks in measured), key=sum)
    shown = sum(map(bool, earlier)) >= MIN_SHARE * len(FREQUENCIES)
    known = [max(step, before if shown else 0.0) for step, before in zip(own, earlier, strict=True)]
    return Quantisation(float(np.exp(np.mean(np.log(known)))), shown)


def read_tables(content: bytes) -> Tables | None:
    """Return how a JPEG file was compressed; None for files of other formats and damaged ones."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with JpegImageFile(io.BytesIO(content)) as image:
                steps = [image.quantization[number] for number in sorted(image.quantization)]  # in a file they have any order
                return Tables(steps, get_sampling(image), image.mode)
    except Exception:  # Pillow raises anything for damaged files
        return None


def _read_steps(content: bytes) -> list[float]:
    """Return the steps of FREQUENCIES by the tables of a JPEG file; 1 for others."""
    tables = read_tables(content)
    if tables is None or not tables.steps:
        return [1.0] * len(FREQUENCIES)
    return [float(tables.steps[0][SIDE * down + across]) for down, across in FREQUENCIES]


def _measure_coefficients(grey: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return the sizes of the coefficients of FREQUENCIES in blocks that begin at the upper left corner."""
    height, width = (side // SIDE for side in grey.shape)
    low = COSINES[:3]  # of those frequencies
    rows = low @ grey[: height * SIDE, : width * SIDE].reshape(height, SIDE, width * SIDE)
    found = np.abs(rows.reshape(height, len(low), width, SIDE) @ low.T)
    return [found[:, down, :, across].ravel() for down, across in FREQUENCIES]


def transform_blocks(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the coefficients [rows, columns, 8, 8] of the blocks of a picture [h, w]; its sides are multiples of SIDE."""
    blocks = grey.reshape(grey.shape[0] // SIDE, SIDE, -1, SIDE).swapaxes(1, 2)
    return np.asarray(COSINES @ blocks @ COSINES.T, np.float32)


def _find_step(coefficients: NDArray[np.float32], own: float) -> float:
    """Return the largest step whose multiples the coefficients are, leaving out multiples of the file's own step; 0 for none."""
    ordered = np.sort(coefficients)
    for step in range(LARGEST_STEP, max(3, int(np.ceil(SMALLEST_RATIO * own))) - 1, -1):
        above = np.searchsorted(ordered, step / 4, "right")  # smooth distributions have most of them below 3/4 of the step
        large = ordered[above:]
        various = len(np.unique(large.round(DIGITS))) > MIN_VARIOUS * len(large)
        if various and len(large) >= MIN_COEFFICIENTS and np.cos(np.float32(2 * np.pi / step) * large).mean() > MIN_COMB:
            return float(step)
    return 0.0
