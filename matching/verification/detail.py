"""Whether a copy that has more pixels than another also shows more, or was enlarged, stretched or turned."""

from collections.abc import Callable

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Float64s, UInt8s

from .alignment import (
    BLOCK,
    Grey,
    Homography,
    block_means,
    cut_middle,
    find_covered,
    find_steps,
    invert,
    to_grey,
    warp,
)
from .edits import Comparison, Fields
from .geometry import map_pixels

Pixels = UInt8s
PREDICTED_SIDE = 640  # side in pixels of the middle part that is measured
FINE = 1.08  # frequencies above this multiple of the smaller picture's highest one are new
SHARED = (0.5, 0.92)  # multiples of it between which frequencies are compared with the new ones
REACH = 3  # pixels on each side that the predicting filter reads
SAMPLES = 12_000  # pixels that the filter is fitted to
# grey levels beyond which values were cut off, and pixels around them
DARKEST = 2
BRIGHTEST = 253
CLIPPED_REACH = 9
FRAME = 16  # pixels along the edges that are left out
MIN_PREDICTED = 8  # blocks that are measured
# share of the energy of new detail that can be predicted: 0.06 in originals, 0.2 in enlarged copies
MAX_PREDICTED = 0.12
# correlation over the blocks of the logarithms of new and shared detail: noise lies elsewhere
MIN_LIKENESS = 0.6
MIN_RATIO = 0.55  # new to shared detail, for a picture of twice the size; less for others


def measure_new_detail(picture: Pixels, other: Grey, homography: Homography) -> float:
    """Return the size in grey levels of the detail of a picture that was not made from a smaller copy; 0 for none that is sure.

    Args:
        picture: Pixels [h, w, 3] of the larger picture.
        other: Grey values [h, w] of the smaller one.
        homography: From the picture's pixels to the other's [3, 3].
    """
    part, back = cut_middle(picture, homography, PREDICTED_SIDE)
    covered = find_covered(other.shape, back, part.shape)
    left, top, width, height = cv2.boundingRect(covered.astype(np.uint8))
    if min(width, height) < BLOCK + 2 * FRAME:
        return 0.0
    # even, as OpenCV's transform needs it
    box = np.s_[top : top + height // 2 * 2, left : left + width // 2 * 2]
    across, down = (float(1 / np.linalg.norm(homography[:2, axis] / homography[2, 2])) for axis in (0, 1))
    if across * down <= 1:
        return 0.0
    # any way of enlarging can be predicted from the nearest pixels
    enlarged = [warp(other, back, part.shape)[box], warp(other, back, part.shape, cv2.INTER_NEAREST)[box]]
    shown = part[box]
    densities = (across, down)
    density = float(np.sqrt(across * down))
    new = _cut_band(shown, densities, FINE)
    shared = _cut_band(shown, densities, *SHARED)
    inputs = [_cut_band(each, densities, FINE) for each in enlarged]
    around = np.ones((CLIPPED_REACH,) * 2, np.uint8)
    frame = np.ones((2 * FRAME + 1,) * 2, np.uint8)
    inner = cv2.erode(covered[box], frame, borderType=cv2.BORDER_CONSTANT, borderValue=0.0) > 0.5
    clipped = (cv2.dilate(shown, around) > BRIGHTEST) | (cv2.erode(shown, around) < DARKEST)
    counted = inner & ~clipped
    return _judge((new - _predict(new, inputs, counted), new, shared), counted, density)


def _judge(bands: tuple[Grey, Grey, Grey], counted: Bools, density: float) -> float:
    """Return the size of what was not predicted where most is seen, if that is detail.

    Args:
        bands: New frequencies that were not predicted, all new, and shared ones.
        counted: Where they count.
        density: Pixels per length, of those of the smaller picture.
    """
    share = block_means(counted.astype(np.float32))
    used = share > 0.5
    if used.sum() < MIN_PREDICTED:
        return 0.0
    left, new, shared = (
        np.maximum(
            block_means(np.where(counted, values, 0).astype(np.float32) ** 2) / np.maximum(share, 0.5), 0
        )[used]
        for values in bands
    )
    order = np.argsort(shared)
    quarter = max(1, len(order) // 4)
    noise = float(np.median(left[order[:quarter]]))
    strong = order[-quarter:]
    size = float(np.sqrt(max(0.0, float(np.median(left[strong])) - noise)))
    ratio = size / max(float(np.sqrt(np.median(shared[strong]))), 1e-6)
    predicted = 1 - float(left.sum()) / max(float(new.sum()), 1e-6)
    likeness = float(np.corrcoef(np.log(left + 0.01), np.log(shared + 0.01))[0, 1])
    sure = predicted < MAX_PREDICTED and likeness > MIN_LIKENESS and ratio > MIN_RATIO * (1 - 1 / density)
    return size if sure else 0.0


def _cut_band(picture: Grey, densities: tuple[float, float], low: float, high: float = np.inf) -> Grey:
    """Return the frequencies of a picture [h, w] from low to high, in those of the finest detail of the smaller one."""
    height, width = picture.shape
    across = np.arange(width) / width * densities[0]
    down = np.arange(height) / height * densities[1]
    frequency = np.maximum(down[:, None], across)
    return np.asarray(cv2.idct(cv2.dct(picture) * ((frequency >= low) & (frequency < high))), np.float32)


def _predict(wanted: Grey, inputs: list[Grey], counted: Bools) -> Grey:
    """Return what the filters of some inputs make of them that fit best what is wanted, where it counts."""
    rows, columns = np.nonzero(counted)
    step = max(1, len(rows) // SAMPLES)
    rows, columns = rows[::step], columns[::step]
    shifts = [(down, across) for down in range(-REACH, REACH + 1) for across in range(-REACH, REACH + 1)]
    seen = np.stack(
        [each[rows + down, columns + across] for each in inputs for down, across in shifts], axis=1
    )
    seen = seen.astype(np.float64)
    weights, *_ = np.linalg.lstsq(seen.T @ seen, seen.T @ wanted[rows, columns], rcond=1e-7)
    made = np.zeros_like(wanted)
    for each, kernel in zip(
        inputs, weights.reshape(len(inputs), 2 * REACH + 1, 2 * REACH + 1), strict=True
    ):
        made += cv2.filter2D(each, cv2.CV_32F, kernel)
    return made


# resolution, as a share of the other picture's, from which a picture may have been enlarged
MIN_DENSITY = 1.15
MAX_DENSITY = 1.1  # pixels per length up to which a picture shows no more than the other one
# by which detail must grow with the density: that of sharp originals grows by 0.5, that of enlarged copies hardly
DETAIL_GAIN = 0.25
# ratio of the densities along two directions up to which the aspect ratio is the same
MAX_ANISOTROPY = 1.04
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
    shown = read() if denser else ()
    enlarged = np.zeros((2, 2), bool)  # of query and reference, along x and y
    new_detail = [0.0, 0.0]
    for side in denser:
        pair = shown[side], to_grey(shown[1 - side]), maps[side]
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


def measure_anisotropy(steps: Float64s) -> float:
    """Return the ratio of the largest to the smallest scale of a map [2, 2]."""
    most, least = np.linalg.svd(steps, compute_uv=False)
    return float(most / max(least, 1e-9))


def measure_angle(steps: Float64s) -> float:
    """Return by how many degrees a map [2, 2] turns."""
    return float(np.degrees(np.arctan2(steps[1, 0], steps[0, 0])))


def _measure_gains(picture: Pixels, other: Grey, homography: Homography) -> Float64s:
    """Return how much more detail a picture has along x and y than the other one, enlarged to its size; infinite if unknown.

    Args:
        picture: Pixels [h, w, 3].
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
