"""Pictures and maps between them: blocks, displacements, warping, tones."""

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Float32s, Float64s, UInt8s

BLOCK, STRIDE = 32, 16  # pixels
# pixels: structure wider than this is removed, so that light and shade do not count as agreement
COARSE = 13
MIN_TEXTURE = 3.0  # grey levels: standard deviation of a block that shows something
MIN_PEAK = 0.7  # correlation from which a displaced block counts as found

Grey = Float32s
Grid = Float32s  # one value for each block [rows, columns]


def to_grey(pixels: UInt8s) -> Grey:
    """Return pixels [h, w, 3] as grey levels [h, w]."""
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)


def keep_details(grey: Grey) -> Grey:
    """Return a picture [h, w] without its coarse structure."""
    # almost a Gaussian, in a fraction of its time
    coarse = cv2.blur(cv2.blur(grey, (COARSE, COARSE)), (COARSE, COARSE))
    return grey - np.asarray(coarse, np.float32)


def block_means(values: Grey) -> Grid:
    """Return the mean of each block of [h, w]; both sides must be at least `BLOCK`."""
    rows, columns = (side // STRIDE for side in values.shape)  # of quarters of blocks, which overlap
    whole = values[: rows * STRIDE, : columns * STRIDE]
    quarters = cv2.resize(whole, (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.blur(quarters, (2, 2)), np.float32)[1:, 1:]


def block_centres(shape: tuple[int, ...]) -> Float64s:
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


def find_displacements(first: Grey, second: Grey, chosen: Bools, reach: int) -> Float64s:
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


def _refine_peak(values: Float32s, place: int) -> float:
    """Return the offset of a parabola's top from the largest of some values; 0 at an end."""
    if not 0 < place < len(values) - 1:
        return 0.0
    before, here, after = map(float, values[place - 1 : place + 2])
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend < 0 else 0.0


MAX_SIDE = 480  # pixels of the longer side; larger pictures are reduced to it
# aspect ratio beyond which the shorter side decides, up to so many times that of the longer one
NARROW, MAX_LONGER = 4, 8
MIN_SIDE = 8  # pixels of a reduced picture
WINDOW = 9  # pixels of the windows in which differences are measured: as many along the edges are left out
LEVELS = 32  # steps of grey in which the tones of two pictures are compared
MEASURED = 40_000  # pixels, about, by which tones and usual differences are measured
MIN_LEVEL_SHARE = 0.002  # share of the pixels that a step must have, for its tone to be known

Homography = Float64s


def reduce_picture(pixels: UInt8s, side: int = MAX_SIDE) -> UInt8s:
    """Return a picture [h, w, 3] with at most so many pixels on its longer side; a strip has more."""
    shorter, longer = sorted(pixels.shape[:2])
    factor = side / min(longer, max(NARROW * shorter, longer / MAX_LONGER))
    return resize_by(pixels, factor) if factor < 1 else pixels


def resize_by(pixels: UInt8s, factor: float) -> UInt8s:
    """Return a picture [h, w, 3] or [h, w] reduced by a factor below 1."""
    height, width = pixels.shape[:2]
    size = max(MIN_SIDE, round(width * factor)), max(MIN_SIDE, round(height * factor))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def map_resized(new: tuple[int, ...], old: tuple[int, ...]) -> Homography:
    """Return the map from the pixels of a picture [h, w] to those of the same picture at another size."""
    horizontal, vertical = new[1] / old[1], new[0] / old[0]
    return np.array(
        [[horizontal, 0, (horizontal - 1) / 2], [0, vertical, (vertical - 1) / 2], [0, 0, 1]], np.float64
    )


def warp(
    picture: Grey, homography: Homography, shape: tuple[int, ...], interpolation: int = cv2.INTER_CUBIC
) -> Grey:
    """Return a picture warped into a frame [h, w]; its border is repeated outside."""
    return np.asarray(
        cv2.warpPerspective(
            picture, homography, (shape[1], shape[0]), flags=interpolation, borderMode=cv2.BORDER_REPLICATE
        ),
        np.float32,
    )


def find_covered(shape: tuple[int, ...], homography: Homography, frame: tuple[int, ...]) -> Grey:
    """Return 1 where a picture of this shape lies in a frame [h, w], else 0."""
    return np.asarray(
        cv2.warpPerspective(
            np.ones(shape[:2], np.uint8), homography, (frame[1], frame[0]), flags=cv2.INTER_NEAREST
        ),
        np.float32,
    )


def invert(homography: Homography) -> Homography:
    """Return the map back."""
    return np.asarray(np.linalg.inv(homography), np.float64)


def map_points(homography: Homography, points: Float64s) -> Float64s:
    """Return points [n, 2] mapped by a homography."""
    mapped = np.c_[points, np.ones(len(points))] @ homography.T
    found: Float64s = mapped[:, :2] / mapped[:, 2:]
    return found


def find_steps(homography: Homography, size: tuple[int, ...]) -> Float64s:
    """Return what steps of a pixel along x and along y become in the middle of a picture, as columns [2, 2]."""
    middle = np.array(size, np.float64) / 2
    start, x, y = map_points(homography, np.stack([middle, middle + (1, 0), middle + (0, 1)]))
    return np.stack([x - start, y - start], axis=1)


def match_tones(picture: Grey, model: Grey, inside: Bools) -> Grey:
    """Return a picture [h, w] with the tones that the model [h, w] has at the same places, as after a change of contrast."""
    if not inside.any():
        return picture
    shown = take_some(picture[inside])
    given = take_some(model[inside])
    low, high = float(shown.min()), float(shown.max())
    steps = np.clip((shown - low) / max(high - low, 1.0) * LEVELS, 0, LEVELS - 1).astype(np.uint8)
    counts = np.bincount(steps, minlength=LEVELS)
    of_steps = np.split(given[np.argsort(steps, kind="stable")], np.cumsum(counts)[:-1])
    known = [step for step in range(LEVELS) if counts[step] > MIN_LEVEL_SHARE * len(steps)]
    centres = [low + (step + 0.5) / LEVELS * (high - low) for step in known]
    tones = [np.median(of_steps[step]) for step in known]
    if len(known) < 2:
        return picture
    return np.interp(picture, centres, tones).astype(np.float32)


def take_some(values: Grey) -> Grey:
    """Return enough of some pixels, evenly spread, to measure what is usual in them."""
    return values[:: max(1, len(values) // MEASURED)]


def vary(picture: Grey) -> Grey:
    """Return the variance in each pixel's window."""
    mean = take_means(picture)
    return np.maximum(take_means(picture * picture) - mean * mean, 0)


def take_means(values: Grey) -> Grey:
    """Return the mean of each pixel's window."""
    return np.asarray(cv2.boxFilter(values, cv2.CV_32F, (WINDOW, WINDOW)), np.float32)


def cut_middle(picture: UInt8s, homography: Homography, side: int) -> tuple[Grey, Homography]:
    """Return the grey middle of a picture [h, w, 3], and the map onto it from the picture to which the homography leads."""
    top, left = (max(0, (length - side) // 2) for length in picture.shape[:2])
    shift = np.array([[1, 0, left], [0, 1, top], [0, 0, 1]], np.float64)
    return to_grey(picture[top : top + side, left : left + side]), invert(homography @ shift)
