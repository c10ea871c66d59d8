"""Which of two copies, laid on each other to the pixel, was made of the other: what one lost when it was saved tells.

One picture is predicted from the other: by a curve for each colour, and by a filter of 5 × 5 pixels. What was made of the other
and saved as JPEG differs from its prediction by what its quantisation took, evenly within its steps. What it was made of shows
steps of its own, which a prediction by a coarser file misses, and one by a finer file, made of it, meets. So the two directions
have different likelihoods, unless both files were saved with the same steps.
"""

import io
import itertools
import math
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from image_copies.data.formats import SIGNATURE_BYTES, readable_formats
from image_copies.matching.verification.alignment import Homography, invert, map_points
from image_copies.matching.verification.blocks import Grey
from image_copies.matching.verification.quantisation import GREY, SIDE, read_tables, transform_blocks
from image_copies.matching.verification.recompression import LOSSLESS, find_coding

Pixels = NDArray[np.uint8]
Saved = tuple[Pixels, bytes]  # the pixels [h, w, 3] of a file, and its bytes
SAME_SCALE = 0.012  # by which a map may differ from one that only turns, mirrors and shifts
SHIFTED = 2  # pixels by which a picture may lie elsewhere than it was found
PLACED_SIDE = 512  # pixels of the part in the middle by which its place is found
MEASURED_SIDE, MIN_SIDE, MIN_BLOCKS = 1024, 48, 30  # pixels of the part in the middle that is compared, and blocks
DARKEST, BRIGHTEST = 1, 254  # grey levels beyond which values were cut off, and follow from nothing
KNOTS = np.linspace(0, 255, 32)  # of the curves
REACH, SAMPLES, RIDGE = 2, 6_000, 1e-8  # pixels to each side of the filter, and those to which it is fitted
ROUNDS, BELIEVED = 5, 0.65  # of a first fit, each to the share that the one before met best: the rest may be laid over
THINNED = 3  # every so many of them is in that first fit
OUTLIER = 6.0  # usual differences from which a pixel does not belong to what was predicted: a caption, a sticker
MIN_BELONGING = 0.65  # share of the blocks that do, from which the others are no part of the picture that was copied
FREQUENCIES = [(down, across) for down in range(6) for across in range(6) if 0 < down + across <= 5]
DEVIATIONS = np.linspace(-8, 8, 4097)  # of the normal distribution
SHARES_BELOW = np.array([math.erfc(-deviation / math.sqrt(2)) / 2 for deviation in DEVIATIONS])
ROUNDING = 0.45  # grey levels that rounding of pixels adds to a coefficient
MISFIT, LEAST_TAIL = 0.02, 4.0  # share of coefficients that were predicted wrongly, and levels by which they are
MIN_COEFFICIENTS = 10  # of a frequency
USUAL_STEP = 8.0  # of formats of which it is not known how coarsely they were compressed
MIN_RATIO = 0.12  # of the logarithms of likelihoods, of a coefficient, that tells which of two was made of the other
# least step that shows in a file of another format, coefficients, and mean cosine of their phases: that of others is at most 0
MIN_STEP, MIN_PHASES, MIN_COMB = 3, 1000, 0.1
USUAL_MISFIT, UNEXPLAINED = 1.0, 1.0  # of what saving does not explain, and how much more the ratio must be for the rest
# EXIF orientations: whether blocks begin at the lower side, at the right side, and whether rows are columns
TURNED = {2: (0, 1, 0), 3: (1, 1, 0), 4: (1, 0, 0), 5: (0, 0, 1), 6: (0, 1, 1), 7: (1, 1, 1), 8: (1, 0, 1)}


@dataclass(frozen=True)
class _Fit:
    """How well a file follows from another one.

    Attributes:
        likelihood: Mean log likelihood of its coefficients.
        best: The same if saving alone had changed them.
        growth: Mean log of their size beside those of the other one.
    """

    likelihood: float
    best: float
    growth: float


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
    codings = [find_coding(content) for _, content in (one, other)]
    if codings[0] != codings[1] and not {"JPEG", LOSSLESS}.issuperset(codings):
        jpeg = codings.index("JPEG") if "JPEG" in codings else None
        return None if jpeg is None or not _shows_steps((one, other)[1 - jpeg][0], *(one, other)[jpeg]) else 1 - jpeg
    fits = _explain(one, other[0], invert(homography)), _explain(other, one[0], homography)
    if fits[0] is None or fits[1] is None:
        return None
    ratio = fits[1].likelihood - fits[0].likelihood + (fits[1].growth - fits[0].growth) / 2
    made = fits[ratio > 0]
    assert made is not None
    unexplained = max(0.0, made.best - made.likelihood - USUAL_MISFIT)
    return int(ratio > 0) if abs(ratio) > MIN_RATIO + UNEXPLAINED * unexplained else None


def _shows_steps(pixels: Pixels, own: Pixels, content: bytes) -> bool:
    """Whether the coefficients of a picture are multiples of the steps of a JPEG file, about, as of one that was made of it."""
    first, steps = _read_grid(content, own.shape)
    box = _find_box(own.shape, own.shape, np.zeros(2, np.int64), first)
    if pixels.shape != own.shape or box is None or steps is None:
        return False
    (top, bottom), (left, right) = box
    sizes = np.abs(transform_blocks(pixels[top:bottom, left:right] @ GREY))
    shown = (sizes >= steps / 2) & (steps >= MIN_STEP)
    shown[..., 0, 0] = False
    phases = np.cos(2 * np.pi * sizes / steps)[shown]
    return phases.size >= MIN_PHASES and bool(phases.mean() > MIN_COMB)


def _explain(file: Saved, source: Pixels, homography: Homography) -> _Fit | None:
    """Return how well a file follows from the pixels of a source; None where that cannot be seen."""
    target, content = file
    placed = _turn(source, homography)
    if placed is None:
        return None
    turned, corner = placed[0], _find_corner(target, *placed)
    first, steps = _read_grid(content, target.shape)
    box = _find_box(target.shape, turned.shape, corner, first)
    if box is None:
        return None
    (top, bottom), (left, right) = box
    shown = target[top:bottom, left:right]
    given = turned[top - corner[0] : bottom - corner[0], left - corner[1] : right - corner[1]]
    cut = np.maximum(shown, given).max(axis=2) >= BRIGHTEST
    cut |= np.minimum(shown, given).min(axis=2) <= DARKEST
    if cut.all():
        return None
    grey = shown @ GREY
    made = _predict(given, grey, ~cut)
    apart = np.abs(grey - made)
    laid_over = apart > OUTLIER * (1.5 * float(np.median(apart[~cut])) + 1)
    possible, whole = (~each.reshape(each.shape[0] // SIDE, SIDE, -1, SIDE).any(axis=(1, 3)) for each in (cut, cut | laid_over))
    if whole.sum() < max(MIN_BLOCKS, MIN_BELONGING * possible.sum()):
        return None
    own, predicted, before = (transform_blocks(each)[whole] for each in (grey, made, given @ GREY))
    values = list(_measure_frequencies(own, predicted, before, steps))
    if not values:
        return None
    weights = [len(likelihoods) for likelihoods, _, _ in values]
    means = [(float(likelihoods.mean()), best, growth) for likelihoods, best, growth in values]
    return _Fit(*np.average(means, axis=0, weights=weights).tolist())


def _find_box(
    target: tuple[int, ...], turned: tuple[int, ...], corner: NDArray[np.int64], first: tuple[int, int]
) -> list[tuple[int, int]] | None:
    """Return the rows and columns of whole blocks in the middle of what two pictures show; None where these are few."""
    box = []
    for start, own, other, offset in zip(corner.tolist(), target, turned, first, strict=False):
        low, high = max(0, start), min(own, start + other)
        low = max(low, (low + high - MEASURED_SIDE) // 2)
        low += (offset - low) % SIDE
        box.append((low, low + min(high - low, MEASURED_SIDE) // SIDE * SIDE))
    return box if all(high - low >= MIN_SIDE for low, high in box) else None


def _measure_frequencies(own: Grey, made: Grey, given: Grey, steps: Grey | None) -> Iterator[tuple[Grey, float, float]]:
    """Yield what `_Fit` holds, by frequency, of coefficients [blocks, 8, 8] of a file, its prediction, and its source."""
    for down, across in FREQUENCIES:
        value, rest = own[:, down, across], (own - made)[:, down, across]
        spread = float(np.sqrt(np.mean(np.clip(rest, -60, 60) ** 2))) + ROUNDING
        step = None if steps is None else float(steps[down, across])
        dense = np.abs(value - rest / 2) >= max(step or 0.0, 2 * spread, 2.0)
        if dense.sum() >= MIN_COEFFICIENTS:
            sizes = [float(np.mean(each[dense, down, across] ** 2)) + 1 for each in (own, given)]
            growth = float(np.log(sizes[0] / sizes[1]) / 2)
            yield _weigh(rest[dense], step, spread), -float(np.log(step or USUAL_STEP)), growth


def _weigh(rest: Grey, step: float | None, spread: float) -> Grey:
    """Return the log likelihoods of prediction errors [n]: uniform within a quantisation step, or normal."""
    normal = -0.5 * (rest / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi))
    if step is None:
        return np.asarray(normal, np.float32)
    above, below = (np.interp((rest + side) / ROUNDING, DEVIATIONS, SHARES_BELOW) for side in (step / 2, -step / 2))
    within = (above - below) / step
    tail = max(step, LEAST_TAIL)
    even = np.log((1 - MISFIT) * within + MISFIT * np.exp(-np.abs(rest) / tail) / (2 * tail) + 1e-30)
    return np.asarray(normal if step == 1 and normal.mean() > even.mean() else even, np.float32)


def _turn(source: Pixels, homography: Homography) -> tuple[Pixels, NDArray[np.int64]] | None:
    """Return a picture turned and mirrored as a map says, and where its corner comes to lie; None where that scales it."""
    height, width = source.shape[:2]
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    start, x, y = map_points(homography, np.stack([middle, middle + (1, 0), middle + (0, 1)]))
    steps = np.stack([x - start, y - start], axis=1)
    whole = np.rint(steps)
    if np.abs(whole).sum() != 2 or abs(np.linalg.det(whole)) < 0.5 or np.abs(steps - whole).max() > SAME_SCALE:
        return None
    turned = source.swapaxes(0, 1) if whole[0, 0] == 0 else source
    right, down = whole.sum(axis=1)
    turned = np.ascontiguousarray(turned[:: int(down), :: int(right)])
    corner = start - (np.array(turned.shape[1::-1]) - 1) / 2
    return turned, np.rint(corner).astype(np.int64)[::-1]


def _find_corner(target: Pixels, turned: Pixels, corner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where a picture's corner lies in another one, to the pixel, by the details in the middle of what both show."""
    low = np.maximum(corner, 0) + SHIFTED
    high = np.minimum(np.array(turned.shape[:2]) + corner, target.shape[:2]) - SHIFTED
    if (high - low).min() < MIN_SIDE:
        return corner
    low += np.maximum(0, high - low - PLACED_SIDE) // 2
    high = np.minimum(high, low + PLACED_SIDE)
    before, after = low - corner - SHIFTED, high - corner + SHIFTED
    parts = target[low[0] : high[0], low[1] : high[1]], turned[before[0] : after[0], before[1] : after[1]]
    fixed, moved = (cv2.Laplacian(part @ GREY, cv2.CV_32F) for part in parts)
    likeness = np.abs(cv2.matchTemplate(moved, fixed, cv2.TM_CCORR_NORMED))
    return corner + SHIFTED - np.array(np.unravel_index(int(likeness.argmax()), likeness.shape))


def _predict(source: Pixels, wanted: Grey, used: NDArray[np.bool_]) -> Grey:
    """Return the brightness [h, w] that the curves and the filter which fit best make of a picture [h, w, 3]."""
    grey = cv2.copyMakeBorder(source @ GREY, REACH, REACH, REACH, REACH, cv2.BORDER_REPLICATE)
    around = [place for place in itertools.product(range(2 * REACH + 1), repeat=2) if place != (REACH, REACH)]
    rows, columns = np.nonzero(used)
    step = max(1, len(rows) // SAMPLES)
    rows, columns = rows[::step], columns[::step]
    hats = np.maximum(0, 1 - np.abs(np.arange(256)[:, None] / KNOTS[1] - np.arange(len(KNOTS))))
    seen = np.concatenate(
        [
            *(hats[source[rows, columns, channel]] for channel in range(3)),
            np.stack([grey[rows + down, columns + across] / 255 for down, across in around], axis=1),
        ],
        axis=1,
    )
    values = wanted[rows, columns].astype(np.float64)
    some, of_some, rest = seen[::THINNED], values[::THINNED], np.zeros(len(values[::THINNED]))
    for _ in range(ROUNDS):
        near = rest <= np.quantile(rest, BELIEVED)
        rest = np.abs(of_some - some @ _fit(some[near], of_some[near]))
    rest = np.abs(values - seen @ _fit(some[near], of_some[near]))
    near = rest < OUTLIER * (1.5 * np.median(rest) + 0.5)
    weights = _fit(seen[near], values[near])
    curves, kernel = weights[: 3 * len(KNOTS)].reshape(3, -1), weights[3 * len(KNOTS) :]
    square = np.insert(kernel, len(kernel) // 2, 0).reshape(2 * REACH + 1, -1) / 255
    made = np.asarray(cv2.filter2D(source @ GREY, cv2.CV_32F, square, borderType=cv2.BORDER_REPLICATE), np.float32)
    for channel in range(3):
        made = made + np.asarray(cv2.LUT(source[..., channel], (hats @ curves[channel]).astype(np.float32)), np.float32)
    return made


def _fit(seen: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    products = seen.T @ seen + RIDGE * len(seen) * np.eye(seen.shape[1])
    return np.asarray(np.linalg.solve(products, seen.T @ values), np.float64)


def _read_grid(content: bytes, shape: tuple[int, ...]) -> tuple[tuple[int, int], Grey | None]:
    """Return where the blocks of a file begin in its picture, shown upright, and their steps [8, 8]; None of unknown ones."""
    tables = read_tables(content)
    if tables is None:
        return (0, 0), np.ones((SIDE, SIDE), np.float32) if find_coding(content) == LOSSLESS else None
    orientation = 1
    with suppress(Exception), warnings.catch_warnings():  # damaged files raise anything
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(content), formats=readable_formats(content[:SIGNATURE_BYTES])) as image:
            orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    lower, right, columns = TURNED.get(orientation, (0, 0, 0))
    steps = np.array(tables.steps[0], np.float32).reshape(SIDE, SIDE)
    return (lower * (shape[0] % SIDE), right * (shape[1] % SIDE)), steps.T if columns else steps
