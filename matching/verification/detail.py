"""Whether a copy that has more pixels than another also shows more, or was enlarged, stretched or turned."""

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from .alignment import Homography, cut_middle, find_covered, find_steps, invert, warp
from .blocks import BLOCK, Grey, block_means, to_grey
from .edits import Comparison, Fields
from .enlargement import measure_new_detail
from .geometry import map_pixels

Pixels = NDArray[np.uint8]
# resolution, as a share of the other picture's, from which a picture may have been enlarged
MIN_DENSITY = 1.15
MAX_DENSITY = 1.1  # pixels per length up to which a picture shows no more than the other one
# by which detail must grow with the density: that of sharp originals grows by 0.5, that of enlarged copies hardly
DETAIL_GAIN = 0.25
MAX_ANISOTROPY = 1.04  # ratio of the densities along two directions up to which the aspect ratio is the same
MAX_TILT = 1.0  # degrees up to which a picture was not turned
MEASURED_SIDE = 1024  # pixels of the part in the middle in which detail is measured
MIN_DETAIL = 2.0  # grey levels of the second difference in a block that shows something
MIN_BLOCKS = 4  # blocks that must show something
# along x and y
SECOND_DIFFERENCES = (np.array([[-1, 2, -1]], np.float32), np.array([[-1], [2], [-1]], np.float32))


def compare_detail(
    comparison: Comparison,
    sizes: tuple[tuple[int, int], tuple[int, int]],
    read: Callable[[], tuple[Pixels, Pixels]],
    trusted: tuple[bool, bool] = (False, False),
) -> Fields:
    """Return which of two copies was enlarged, stretched or turned, and the ratio of their densities.

    Args:
        comparison: What is known of the two.
        sizes: Widths and heights in pixels of query and reference.
        read: Returns the pixels [h, w, 3] of both; called only where detail must be measured.
        trusted: Which of the two cannot have been enlarged or stretched, whatever its pixels say.
    """
    to_reference = map_pixels(comparison.homography, sizes[0][::-1], sizes[1][::-1])
    maps = to_reference, invert(to_reference)
    of_pixels = [find_steps(each, size) for each, size in zip(maps, sizes, strict=True)]
    # pixels of each along its x and y for a length of one pixel of the other
    densities = [1 / np.linalg.norm(steps, axis=0) for steps in of_pixels]
    denser = [side for side in (0, 1) if densities[side].max() > MAX_DENSITY]
    greys = [to_grey(pixels) for pixels in read()] if denser else []
    enlarged = np.zeros((2, 2), bool)  # of query and reference, along x and y
    new_detail = [0.0, 0.0]
    for side in denser:
        pair = greys[side], greys[1 - side], maps[side]
        new_detail[side] = measure_new_detail(*pair)
        if not trusted[side]:
            enough = _measure_gains(*pair) >= 1 + DETAIL_GAIN * (densities[side] - 1)
            enlarged[side] = (densities[side] >= MIN_DENSITY) & ~enough
    uneven = measure_anisotropy(of_pixels[0]) > MAX_ANISOTROPY
    stretched = np.logical_and(enlarged.any(axis=1), uneven)
    if not stretched.any() and max(density.min() for density in densities) < MIN_DENSITY:
        stretched[:] = uneven
    turned = bool(np.linalg.det(of_pixels[0]) < 0 or abs(measure_angle(of_pixels[0])) > MAX_TILT)
    density = float(np.sqrt(densities[0].prod()))
    return {
        "enlarged": enlarged.all(axis=1).tolist(),
        "stretched": stretched.tolist(),
        "turned": (turned, turned),
        "density": (density, 1 / density),
        "new_detail": new_detail,
    }


def measure_anisotropy(steps: NDArray[np.float64]) -> float:
    """Return the ratio of the largest to the smallest scale of a map [2, 2]."""
    most, least = np.linalg.svd(steps, compute_uv=False)
    return float(most / max(least, 1e-9))


def measure_angle(steps: NDArray[np.float64]) -> float:
    """Return by how many degrees a map [2, 2] turns."""
    return float(np.degrees(np.arctan2(steps[1, 0], steps[0, 0])))


def _measure_gains(picture: Grey, other: Grey, homography: Homography) -> NDArray[np.float64]:
    """Return how much more detail a picture has along x and y than the other one, enlarged to its size; infinite if unknown.

    Args:
        picture: Grey values [h, w].
        other: Grey values [h, w].
        homography: From the picture's pixels to the other's [3, 3].
    """
    own, back = cut_middle(picture, homography, MEASURED_SIDE)
    gains = np.full(2, np.inf)
    if min(own.shape) < BLOCK:
        return gains
    enlarged = warp(other, back, own.shape)
    covered = block_means(find_covered(other.shape, back, own.shape)) > 0.999
    for axis, difference in enumerate(SECOND_DIFFERENCES):
        one, two = (_measure_blocks(grey, difference) for grey in (own, enlarged))
        shown = covered & (np.maximum(one, two) > MIN_DETAIL)
        if shown.sum() >= MIN_BLOCKS:
            gains[axis] = np.median(one[shown] / np.maximum(two[shown], 0.5))
    return gains


def _measure_blocks(grey: Grey, difference: Grey) -> Grey:
    """Return the size of the second differences in each block."""
    return np.sqrt(
        np.maximum(block_means(np.asarray(cv2.filter2D(grey, cv2.CV_32F, difference) ** 2, np.float32)), 0)
    )
