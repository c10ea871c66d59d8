"""Blocks of two pictures that lie on each other: how well each pair of blocks agrees, and by how much it is displaced.

Blocks are `BLOCK` pixels wide and high, one every `STRIDE` pixels. What is measured of a block is computed for all of them
at once, by box filters.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

BLOCK, STRIDE = 32, 16  # pixels
COARSE = 13  # pixels: structure wider than this is removed, so that light and shade do not count as agreement
MIN_TEXTURE = 3.0  # grey levels: standard deviation of a block that shows something
FULL = 0.999  # share of a block that both pictures must cover
MIN_PEAK = 0.7  # correlation from which a displaced block counts as found

Grey = NDArray[np.float32]
Grid = NDArray[np.float32]  # one value for each block [rows, columns]


def to_grey(pixels: NDArray[np.uint8]) -> Grey:
    """Return pixels [h, w, 3] as grey levels [h, w]."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)


def keep_details(grey: Grey) -> Grey:
    """Return a picture [h, w] without its coarse structure."""
    # almost a Gaussian, in a fraction of its time
    coarse = cv2.blur(cv2.blur(grey, (COARSE, COARSE)), (COARSE, COARSE))
    return grey - np.asarray(coarse, np.float32)


def block_means(values: Grey) -> Grid:
    """Return the mean of each block of [h, w]; both sides must be at least `BLOCK`."""
    height, width = values.shape
    means = np.asarray(cv2.boxFilter(values, cv2.CV_32F, (BLOCK, BLOCK)), np.float32)
    half = BLOCK // 2
    found: Grid = means[half : height - half + 1 : STRIDE, half : width - half + 1 : STRIDE]
    return found


def block_centres(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the centres [rows, columns, 2] of a grid of blocks of this shape, x and y in pixels."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float64)
    return np.stack([columns, rows], axis=-1) * STRIDE + (BLOCK - 1) / 2


def compare_blocks(first: Grey, second: Grey) -> tuple[Grid, Grid, Grid]:
    """Compare the details [h, w] of two pictures block by block.

    Returns:
        The correlation of each pair of blocks, −1…1, and the standard deviations of the first and of the second one.
    """
    mean_first = block_means(first)
    mean_second = block_means(second)
    variance_first = np.maximum(block_means(first * first) - mean_first**2, 0)
    variance_second = np.maximum(block_means(second * second) - mean_second**2, 0)
    covariance = block_means(first * second) - mean_first * mean_second
    correlation = covariance / np.sqrt(np.maximum(variance_first * variance_second, 1e-6))
    return correlation, np.sqrt(variance_first), np.sqrt(variance_second)


def find_displacements(
    first: Grey, second: Grey, chosen: NDArray[np.bool_], reach: int
) -> NDArray[np.float64]:
    """Search each chosen block of the second picture in the first, around its place.

    Args:
        first: Details [h, w] of one picture.
        second: Details [h, w] of the other.
        chosen: Which blocks to search [rows, columns].
        reach: Pixels to search to each side.

    Returns:
        Displacement [rows, columns, 2], x and y in pixels; NaN where the block was not searched or not found.
    """
    found = np.full((*chosen.shape, 2), np.nan)
    for row, column in zip(*np.nonzero(chosen), strict=True):
        top, left = row * STRIDE, column * STRIDE
        upper, before = max(0, top - reach), max(0, left - reach)
        area = first[upper : top + BLOCK + reach, before : left + BLOCK + reach]
        block = second[top : top + BLOCK, left : left + BLOCK]
        scores = np.asarray(cv2.matchTemplate(area, block, cv2.TM_CCOEFF_NORMED), np.float32)
        _, peak, _, (x, y) = cv2.minMaxLoc(scores)
        if peak >= MIN_PEAK:
            found[row, column] = (
                x + _refine_peak(scores[y], x) + before - left,
                y + _refine_peak(scores[:, x], y) + upper - top,
            )
    return found


def _refine_peak(values: NDArray[np.float32], place: int) -> float:
    """Return the offset of a parabola's top from the largest of some values; 0 at an end."""
    if not 0 < place < len(values) - 1:
        return 0.0
    before, here, after = map(float, values[place - 1 : place + 2])
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend < 0 else 0.0
