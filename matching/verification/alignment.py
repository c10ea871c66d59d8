"""Two pictures laid on each other: a rough homography is refined until their details meet, at the coarser one's resolution."""

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from .blocks import (
    BLOCK,
    BlockAgreement,
    Grey,
    block_centres,
    compare_blocks,
    find_displacements,
    keep_details,
    to_grey,
)

MAX_SIDE = 480  # pixels of the longer side; larger pictures are reduced to it
# aspect ratio beyond which the shorter side decides, up to so many times that of the longer one
NARROW, MAX_LONGER = 4, 8
MIN_SIDE = 8  # pixels of a reduced picture
FIRST_REACH, LAST_REACH = 6, 3  # pixels within which blocks are searched
MAX_FIT_ERROR = 1.0  # pixels
MIN_BLOCKS = 4  # displaced blocks from which a map is fitted
HOMOGRAPHY_BLOCKS = 12  # displaced blocks from which a homography is fitted, where an affine map does not do
ENOUGH_BLOCKS = 40  # displaced blocks that determine a map well
AFFINE_MEDIAN = 0.9  # median correlation from which it does
HOMOGRAPHY_GAIN = 0.01  # of the median correlation, by which a homography must be better than an affine map
OTHER_CHANNELS_BELOW = 0.7  # median correlation below which colour channels are compared, too
BLURS = (0.7, 1.2, 2.0, 3.0)  # standard deviations in pixels by which the sharper picture is blurred
BLUR_GAIN = 0.003  # of the median correlation, by which more blur must be better
CHANNEL_GAIN = 0.05  # of the median correlation, by which other channels must be better
WINDOW = 9  # pixels of the windows in which differences are measured: as many along the edges are left out
LEVELS = 32  # steps of grey in which the tones of two pictures are compared
MEASURED = 40_000  # pixels, about, by which tones and usual differences are measured
MIN_LEVEL_SHARE = 0.002  # share of the pixels that a step must have, for its tone to be known
NO_SCALE = 0.95  # a picture is not reduced for a scale above this

Homography = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Aligned:
    """Two pictures in one frame, that of the coarser one.

    Attributes:
        fixed: Grey values [h, w] of the picture that gives the frame.
        warped: Grey values [h, w] of the other one, warped into the frame; negated for a negative.
        covered: 1 where the warped picture has pixels, else 0, [h, w].
        moving: Grey values of the other picture, in its own frame.
        homography: From the other picture's pixels to the frame's [3, 3].
        blurs: Standard deviations in pixels by which `fixed` and `warped` are blurred to look alike, one of them 0.
        swapped: Whether the frame is the query's, not the reference's.
    """

    fixed: Grey
    warped: Grey
    covered: Grey
    moving: Grey
    homography: Homography
    blurs: tuple[float, float] = 0.0, 0.0
    swapped: bool = False

    @property
    def negative(self) -> bool:
        """Whether one of them was negated."""
        return bool(self.moving.mean() < 0)

    @cached_property
    def alike(self) -> tuple[Grey, Grey]:
        """Both pictures in the frame [h, w], blurred to look alike."""
        return _blur(self.fixed, self.blurs[0]), _blur(self.warped, self.blurs[1])

    @cached_property
    def seen(self) -> Grey:
        """1 where the other picture lies in `moving`, else 0 [h, w]."""
        return find_covered(self.fixed.shape, invert(self.homography), self.moving.shape)

    @cached_property
    def details(self) -> tuple[Grey, Grey]:
        """Details [h, w] of both, blurred to look alike."""
        fixed, warped = self.alike
        return keep_details(fixed), keep_details(warped)

    @cached_property
    def blocks(self) -> BlockAgreement:
        """Agreement of their blocks."""
        return compare_blocks(*self.details, self.covered)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Where both are seen [h, w], but for the edges."""
        around = np.ones((WINDOW, WINDOW), np.uint8)
        eroded = cv2.erode(self.covered, around, borderType=cv2.BORDER_CONSTANT, borderValue=0.0)
        return np.asarray(eroded > 0.5, np.bool_)

    @cached_property
    def toned(self) -> tuple[tuple[Grey, Grey], tuple[Grey, Grey]]:
        """Both as in `alike`, first with the tones of the fixed one, and then with those of the other one."""
        fixed, warped = self.alike
        return (fixed, match_tones(warped, fixed, self.inside)), (
            match_tones(fixed, warped, self.inside),
            warped,
        )


def reduce_picture(pixels: NDArray[np.uint8], side: int = MAX_SIDE) -> NDArray[np.uint8]:
    """Return a picture [h, w, 3] with at most so many pixels on its longer side; a strip has more."""
    shorter, longer = sorted(pixels.shape[:2])
    factor = side / min(longer, max(NARROW * shorter, longer / MAX_LONGER))
    return resize_by(pixels, factor) if factor < 1 else pixels


def resize_by(pixels: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
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


def align(
    query: NDArray[np.uint8], reference: NDArray[np.uint8], homography: Homography, negative: bool
) -> Aligned | None:
    """Lay a picture on another.

    Args:
        query: uint8 [h, w, 3], RGB, reduced.
        reference: uint8 [h, w, 3], RGB, reduced.
        homography: Roughly from the query's pixels to the reference's [3, 3].
        negative: Whether one of them is a negative of the other.

    Returns:
        Both in one frame; None where they do not overlap, or by less than a block.
    """
    scale = _measure_scale(homography, query.shape[:2], reference.shape[:2])
    if scale is None:
        return None
    fixed, moving = (reference, query) if scale <= 1 else (query, reference)
    rough = homography if scale <= 1 else invert(homography)
    factor = min(scale, 1 / scale)
    if factor < NO_SCALE:
        reduced = resize_by(moving, factor)
        rough = rough @ map_resized(moving.shape, reduced.shape)
        moving = reduced
    if min(*fixed.shape[:2], *moving.shape[:2]) < BLOCK:
        return None
    sign = -1 if negative else 1
    laid = replace(_lay(to_grey(fixed), sign * to_grey(moving), rough), swapped=scale > 1)
    aligned = _refine(_match_blur(laid), FIRST_REACH)
    if aligned.blocks.median < OTHER_CHANNELS_BELOW:
        aligned = _try_channels(aligned, fixed, sign * moving.astype(np.float32))
    return _refine(_match_blur(_refine(aligned, LAST_REACH)), LAST_REACH)


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
            np.ones(shape[:2], np.float32), homography, (frame[1], frame[0]), flags=cv2.INTER_NEAREST
        ),
        np.float32,
    )


def invert(homography: Homography) -> Homography:
    """Return the map back."""
    return np.asarray(np.linalg.inv(homography), np.float64)


def map_points(homography: Homography, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points [n, 2] mapped by a homography."""
    mapped = np.c_[points, np.ones(len(points))] @ homography.T
    found: NDArray[np.float64] = mapped[:, :2] / mapped[:, 2:]
    return found


def match_tones(picture: Grey, model: Grey, inside: NDArray[np.bool_]) -> Grey:
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


def cut_middle(picture: Grey, homography: Homography, side: int) -> tuple[Grey, Homography]:
    """Return the middle of a picture, and the map onto it from the picture to which the homography leads from the whole."""
    top, left = (max(0, (length - side) // 2) for length in picture.shape)
    shift = np.array([[1, 0, left], [0, 1, top], [0, 0, 1]], np.float64)
    return picture[top : top + side, left : left + side], invert(homography @ shift)


def _measure_scale(
    homography: Homography, query: tuple[int, ...], reference: tuple[int, ...]
) -> float | None:
    """Return the median length in the reference over length in the query where they overlap; None where they do not."""
    rows, columns = np.mgrid[0 : query[0] : 9j, 0 : query[1] : 9j]
    points = np.c_[columns.ravel(), rows.ravel()]
    depth = points @ homography[2, :2] + homography[2, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = map_points(homography, points).T
        areas = np.abs(np.linalg.det(homography) / depth**3)  # of the Jacobian's determinant
    inside = (depth > 0) & (x >= 0) & (x < reference[1]) & (y >= 0) & (y < reference[0])
    if not inside.any():
        return None
    scale = float(np.sqrt(np.median(areas[inside])))
    return scale if np.isfinite(scale) and scale > 0 else None


def _lay(fixed: Grey, moving: Grey, homography: Homography) -> Aligned:
    return Aligned(
        fixed=fixed,
        warped=warp(moving, homography, fixed.shape),
        covered=find_covered(moving.shape, homography, fixed.shape),
        moving=moving,
        homography=homography / homography[2, 2],
    )


def _lay_again(aligned: Aligned, homography: Homography, planes: tuple[Grey, Grey] | None = None) -> Aligned:
    """Return pictures laid by another map, or other planes of them laid, blurred as before."""
    laid = _lay(*(planes or (aligned.fixed, aligned.moving)), homography)
    return replace(laid, blurs=aligned.blurs, swapped=aligned.swapped)


def _blur(picture: Grey, deviation: float) -> Grey:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), deviation), np.float32) if deviation else picture


def _refine(aligned: Aligned, reach: int) -> Aligned:
    """Lay the pictures by a map fitted to their blocks' displacements, if they agree better then."""
    chosen = _thin_out(aligned.blocks.textured)
    moved = find_displacements(*aligned.details, chosen, reach)
    found = ~np.isnan(moved[..., 0])
    centres = block_centres((chosen.shape[0], chosen.shape[1]))[found]
    before = map_points(invert(aligned.homography), centres)
    best = aligned
    if len(centres) < MIN_BLOCKS:
        return best
    affine, _ = cv2.estimateAffine2D(before, centres + moved[found], ransacReprojThreshold=MAX_FIT_ERROR)
    if affine is not None:
        best = _pick(best, _lay_again(aligned, np.vstack([affine, [0, 0, 1]])), 0.0)
    if best.blocks.median < AFFINE_MEDIAN and len(centres) >= HOMOGRAPHY_BLOCKS:
        step, _ = cv2.findHomography(
            centres, centres + moved[found], cv2.USAC_MAGSAC, MAX_FIT_ERROR, maxIters=1000, confidence=0.999
        )
        if step is not None and abs(step[2, 2]) > 1e-9:
            best = _pick(best, _lay_again(aligned, step @ aligned.homography), HOMOGRAPHY_GAIN)
    return best


def _thin_out(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return every second or third block of as many rows, where these are enough: their neighbours overlap them."""
    for apart in (3, 2):
        thinned = np.zeros_like(chosen)
        thinned[::apart, ::apart] = chosen[::apart, ::apart]
        if thinned.sum() >= ENOUGH_BLOCKS:
            return thinned
    return chosen


def _pick(one: Aligned, other: Aligned, gain: float) -> Aligned:
    """Return the other if its blocks agree better by more than the gain."""
    return other if other.blocks.median > one.blocks.median + gain else one


def _try_channels(aligned: Aligned, fixed: NDArray[np.uint8], moving: NDArray[np.float32]) -> Aligned:
    """Compare colour channels with each other, which edits may have exchanged or negated."""
    best = aligned
    for own in range(3):
        for other in range(3):
            planes = np.asarray(fixed[..., own], np.float32), np.ascontiguousarray(moving[..., other])
            best = _pick(best, _lay_again(aligned, aligned.homography, planes), CHANNEL_GAIN)
    return best if best is aligned else _refine(best, FIRST_REACH)


def _match_blur(aligned: Aligned) -> Aligned:
    """Blur the sharper picture as far as that makes the two more alike."""
    best = replace(aligned, blurs=(0.0, 0.0))
    for deviations in ([(0.0, blur) for blur in BLURS], [(blur, 0.0) for blur in BLURS]):
        for pair in deviations:
            blurred = replace(aligned, blurs=pair)
            if blurred.blocks.median <= best.blocks.median + BLUR_GAIN:
                break
            best = blurred
    return best
