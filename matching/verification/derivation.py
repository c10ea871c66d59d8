"""Which of two copies, laid on each other to the pixel, was made of the other: what one lost when it was saved tells.

One picture is predicted from the other, by a curve for each colour. What was made of the other and saved as JPEG differs from
its prediction by what its quantisation took, evenly within its steps. What it was made of shows steps of its own, which a
prediction by a coarser file misses, and one by a finer file, made of it, meets. So the two directions have different
likelihoods, unless both files were saved with the same steps.
"""

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Int64s, UInt8s

from .alignment import Grey, Homography, find_steps, invert, map_points
from .recompression import GREY, MIN_COMB, SIDE, measure_phases, read_steps, transform_blocks

Pixels = UInt8s
Saved = tuple[Pixels, bytes]  # the pixels [h, w, 3] of a file, and its bytes
SAME_SCALE = 0.012  # by which a map may differ from one that only turns, mirrors and shifts
# pixels of the part in the middle that is compared, and blocks
MEASURED_SIDE = 1024
MIN_BLOCKS = 30
DARKEST, BRIGHTEST = 1, 254  # grey levels beyond which values were cut off, and follow from nothing
KNOTS = np.linspace(0, 255, 32)  # of the curves
# share of each in a value
HATS = np.maximum(0, 1 - np.abs(np.arange(256)[:, None] / KNOTS[1] - np.arange(len(KNOTS))))
SAMPLES = 6_000  # pixels to which they are fitted
# frequencies
DOWN, ACROSS = np.array(
    [(down, across) for down in range(6) for across in range(6) if 0 < down + across <= 5]
).T
ROUNDING = 0.25  # grey levels over which a step ends: pixels were rounded
# share of coefficients that were predicted wrongly, and levels by which they are
MISFIT, LEAST_TAIL = 0.02, 4.0
# difference of the mean log likelihoods that tells which was made of the other; by how much a likelihood usually falls short of
# that of saving alone: what is missing beyond is needed more
MIN_RATIO, USUAL = 0.05, 1.0


def find_made(one: Saved, other: Saved, homography: Homography) -> int | None:
    """Return which of two copies was made of the other.

    Args:
        one: One file.
        other: The other.
        homography: From the one's pixels to the other's [3, 3].

    Returns:
        0 for the one, 1 for the other; None where nothing says so, they were scaled, or show too little. Of a format that is
        neither JPEG nor lossless it is known only that it shows the steps of a JPEG file, which was first.
    """
    own = _lay(one[0], other[0], invert(homography))
    theirs = _lay(other[0], one[0], homography)
    if own is None or theirs is None:
        return None
    steps = read_steps(one[1]), read_steps(other[1])
    if steps[0] is None or steps[1] is None:
        shown = [
            each is not None and measure_phases(laid[1], each) > MIN_COMB
            for each, laid in zip(steps, (own, theirs), strict=True)
        ]
        return 1 if shown[0] else 0 if shown[1] else None
    fit = _explain(*own, steps[0])
    other_fit = _explain(*theirs, steps[1])
    if fit is None or other_fit is None:
        return None
    ratio = other_fit[0] - fit[0]
    short = (other_fit if ratio > 0 else fit)[1]
    return int(ratio > 0) if abs(ratio) > MIN_RATIO + max(0.0, short - USUAL) else None


def _lay(target: Pixels, source: Pixels, homography: Homography) -> tuple[Pixels, Pixels] | None:
    """Return what a picture and its source show alike, in whole blocks of the picture [h, w, 3]; None where one was scaled."""
    middle = (np.array(source.shape[1::-1]) - 1) / 2
    steps = find_steps(homography, (source.shape[1], source.shape[0]))
    whole = np.rint(steps)
    if np.abs(whole).sum() != 2 or np.abs(steps - whole).max() > SAME_SCALE:
        return None
    right, down = whole.sum(axis=1).astype(int)
    turned = (source if whole[0, 0] else source.swapaxes(0, 1))[::down, ::right]
    corner = np.rint(
        map_points(homography, middle[None])[0, ::-1] - (np.array(turned.shape[:2]) - 1) / 2
    ).astype(int)
    low = np.maximum(corner, 0)
    high = np.minimum(corner + turned.shape[:2], target.shape[:2])
    low = np.maximum(low, (low + high - MEASURED_SIDE) // 2)
    low += -low % SIDE
    size = np.minimum(high - low, MEASURED_SIDE) // SIDE * SIDE
    return None if size.min() <= 0 else (_cut(target, low, size), _cut(turned, low - corner, size))


def _cut(pixels: Pixels, corner: Int64s, size: Int64s) -> Pixels:
    (top, left), (bottom, right) = corner, corner + size
    return pixels[top:bottom, left:right]


def _explain(shown: Pixels, given: Pixels, steps: Grey) -> tuple[float, float] | None:
    """Return the mean log likelihood of the coefficients of a file, as made of what is given; None where that cannot be seen.

    The second number is by how much it falls short of what it were if saving alone had changed them.
    """
    grey = shown @ GREY
    # a tenth of the time of a maximum along the last axis
    brightest = np.maximum.reduce(cv2.split(np.maximum(shown, given)))
    darkest = np.minimum.reduce(cv2.split(np.minimum(shown, given)))
    cut = (brightest >= BRIGHTEST) | (darkest <= DARKEST)
    whole = ~cut.reshape(len(grey) // SIDE, SIDE, -1, SIDE).any(axis=(1, 3))
    if whole.sum() < MIN_BLOCKS:
        return None
    made = _predict(given, grey, ~cut)
    own, predicted, before = (
        transform_blocks(each)[whole][:, DOWN, ACROSS] for each in (grey, made, given @ GREY)
    )
    rest = own - predicted
    step = np.broadcast_to(steps[DOWN, ACROSS], own.shape)
    spread = np.sqrt(np.mean(np.square(rest), axis=0)) + ROUNDING
    dense = np.abs(own - rest / 2) >= np.maximum(step, 2 * spread)
    if not dense.any():
        return None
    growth = np.log((np.square(own[dense]).mean() + 1) / (np.square(before[dense]).mean() + 1)) / 2
    likelihood = _weigh(rest[dense], step[dense]).mean()
    saved = -np.log(step[dense]).mean()
    return float(likelihood + growth / 2), float(saved - likelihood)


def _weigh(rest: Grey, step: Grey) -> Grey:
    """Return the log likelihoods of prediction errors [n]: even within a quantisation step, but for a few."""
    within = (1 - np.tanh((np.abs(rest) - step / 2) / (2 * ROUNDING))) / (2 * step)
    tail = np.maximum(step, LEAST_TAIL)
    return np.asarray(
        np.log((1 - MISFIT) * within + MISFIT * np.exp(-np.abs(rest) / tail) / (2 * tail) + 1e-30),
        np.float32,
    )


def _predict(source: Pixels, wanted: Grey, used: Bools) -> Grey:
    """Return the brightness [h, w] that the curves of channels which fit best make of a picture [h, w, 3]."""
    rows, columns = np.nonzero(used)
    step = max(1, len(rows) // SAMPLES)
    rows, columns = rows[::step], columns[::step]
    shares = np.concatenate([HATS[channel] for channel in source[rows, columns].T], axis=1)
    heights, *_ = np.linalg.lstsq(shares, wanted[rows, columns], rcond=1e-6)
    curves = HATS @ heights.reshape(3, -1).T
    made = sum(curves[source[..., channel], channel] for channel in range(3))
    return np.asarray(made, np.float32)
