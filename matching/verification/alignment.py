"""Two pictures laid on each other: a rough homography is refined until their details meet, at the coarser one's resolution."""

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.blocks import (
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
NO_SCALE = 0.95  # a picture is not reduced for a scale above this

Homography = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """Two pictures in one frame, that of the coarser one.

    Attributes:
        fixed: Grey values [h, w] of the picture that gives the frame.
        warped: Grey values [h, w] of the other one, warped into the frame; negated for a negative.
        covered: 1 where the warped picture has pixels, else 0, [h, w].
        moving: Grey values of the other picture, in its own frame.
        homography: From the other picture's pixels to the frame's [3, 3].
        blurs: Standard deviations in pixels by which `fixed` and `warped` are blurred to look alike, one of them 0.
        blocks: Agreement of the blocks after that.
        fixed_details: Details [h, w] of `fixed` after that.
        warped_details: Details [h, w] of `warped` after that.
        swapped: Whether the frame is the query's, not the reference's.
    """

    fixed: Grey
    warped: Grey
    covered: Grey
    moving: Grey
    homography: Homography
    blurs: tuple[float, float]
    blocks: BlockAgreement
    fixed_details: Grey
    warped_details: Grey
    swapped: bool = False

    @property
    def negative(self) -> bool:
        """Whether one of them was negated."""
        return bool(self.moving.mean() < 0)

    @cached_property
    def alike(self) -> tuple[Grey, Grey]:
        """Both pictures in the frame [h, w], blurred to look alike."""
        return _blur(self.fixed, self.blurs[0]), _blur(self.warped, self.blurs[1])


def reduce_picture(pixels: NDArray[np.uint8], side: int = MAX_SIDE) -> NDArray[np.uint8]:
    """Return a picture [h, w, 3] with at most so many pixels on its longer side; a strip has more."""
    shorter, longer = sorted(pixels.shape[:2])
    factor = side / min(longer, max(NARROW * shorter, longer / MAX_LONGER))
    return resize_by(pixels, factor) if factor < 1 else pixels


def resize_by(pixels: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """Return a picture [h, w, 3] reduced by a factor below 1."""
    height, width = pixels.shape[:2]
    size = max(MIN_SIDE, round(width * factor)), max(MIN_SIDE, round(height * factor))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def scale_points(horizontal: float, vertical: float) -> Homography:
    """Return the map of pixel coordinates when a picture is resized; the centre of the first pixel is 0, 0."""
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
        rough = rough @ invert(
            scale_points(reduced.shape[1] / moving.shape[1], reduced.shape[0] / moving.shape[0])
        )
        moving = reduced
    if min(*fixed.shape[:2], *moving.shape[:2]) < BLOCK:
        return None
    sign = -1 if negative else 1
    aligned = _refine(_match_blur(_lay(to_grey(fixed), sign * to_grey(moving), rough)), FIRST_REACH)
    if aligned.blocks.median < OTHER_CHANNELS_BELOW:
        aligned = _try_channels(aligned, fixed, sign * moving.astype(np.float32))
    return replace(_refine(_match_blur(_refine(aligned, LAST_REACH)), LAST_REACH), swapped=scale > 1)


def warp(picture: Grey, homography: Homography, shape: tuple[int, ...]) -> Grey:
    """Return a picture warped into a frame [h, w]; its border is repeated outside."""
    return np.asarray(
        cv2.warpPerspective(
            picture, homography, (shape[1], shape[0]), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
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


def _measure_scale(
    homography: Homography, query: tuple[int, ...], reference: tuple[int, ...]
) -> float | None:
    """Return the median length in the reference over length in the query where they overlap; None where they do not."""
    rows, columns = np.mgrid[0 : query[0] : 9j, 0 : query[1] : 9j]
    points = np.c_[columns.ravel(), rows.ravel(), np.ones(81)]
    mapped = points @ homography.T
    depth = mapped[:, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = mapped[:, 0] / depth, mapped[:, 1] / depth
        areas = np.abs(np.linalg.det(homography) / depth**3)  # of the Jacobian's determinant
    inside = (depth > 0) & (x >= 0) & (x < reference[1]) & (y >= 0) & (y < reference[0])
    if not inside.any():
        return None
    scale = float(np.sqrt(np.median(areas[inside])))
    return scale if np.isfinite(scale) and scale > 0 else None


def _lay(
    fixed: Grey, moving: Grey, homography: Homography, blurs: tuple[float, float] = (0.0, 0.0)
) -> Aligned:
    warped = warp(moving, homography, fixed.shape)
    covered = find_covered(moving.shape, homography, fixed.shape)
    details = keep_details(_blur(fixed, blurs[0])), keep_details(_blur(warped, blurs[1]))
    blocks = compare_blocks(*details, covered)
    return Aligned(
        fixed=fixed,
        warped=warped,
        covered=covered,
        moving=moving,
        homography=homography / homography[2, 2],
        blurs=blurs,
        blocks=blocks,
        fixed_details=details[0],
        warped_details=details[1],
    )


def _blur(picture: Grey, deviation: float) -> Grey:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), deviation), np.float32) if deviation else picture


def _refine(aligned: Aligned, reach: int) -> Aligned:
    """Lay the pictures by a map fitted to their blocks' displacements, if they agree better then."""
    chosen = _thin_out(aligned.blocks.textured)
    moved = find_displacements(aligned.fixed_details, aligned.warped_details, chosen, reach)
    found = ~np.isnan(moved[..., 0])
    centres = block_centres((chosen.shape[0], chosen.shape[1]))[found]
    before = map_points(invert(aligned.homography), centres)
    best = aligned
    if len(centres) < MIN_BLOCKS:
        return best
    affine, _ = cv2.estimateAffine2D(before, centres + moved[found], ransacReprojThreshold=MAX_FIT_ERROR)
    if affine is not None:
        best = _pick(
            best, _lay(aligned.fixed, aligned.moving, np.vstack([affine, [0, 0, 1]]), aligned.blurs), 0.0
        )
    if best.blocks.median < AFFINE_MEDIAN and len(centres) >= HOMOGRAPHY_BLOCKS:
        step, _ = cv2.findHomography(
            centres, centres + moved[found], cv2.USAC_MAGSAC, MAX_FIT_ERROR, maxIters=1000, confidence=0.999
        )
        if step is not None and abs(step[2, 2]) > 1e-9:
            best = _pick(
                best,
                _lay(aligned.fixed, aligned.moving, step @ aligned.homography, aligned.blurs),
                HOMOGRAPHY_GAIN,
            )
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
            best = _pick(best, _lay(*planes, aligned.homography, aligned.blurs), CHANNEL_GAIN)
    return best if best is aligned else _refine(best, FIRST_REACH)


def _match_blur(aligned: Aligned) -> Aligned:
    """Blur the sharper picture as far as that makes the two more alike."""
    best = sharp = _blur_pair(aligned, (0.0, 0.0))
    for deviations in ([(0.0, blur) for blur in BLURS], [(blur, 0.0) for blur in BLURS]):
        for pair in deviations:
            blurred = _blur_pair(sharp, pair)
            if blurred.blocks.median <= best.blocks.median + BLUR_GAIN:
                break
            best = blurred
    return best


def _blur_pair(aligned: Aligned, blurs: tuple[float, float]) -> Aligned:
    """Return the same map with other blurs."""
    details = [
        known if blur == used else keep_details(_blur(picture, blur))
        for known, blur, used, picture in (
            (aligned.fixed_details, blurs[0], aligned.blurs[0], aligned.fixed),
            (aligned.warped_details, blurs[1], aligned.blurs[1], aligned.warped),
        )
    ]
    if blurs == aligned.blurs:
        return aligned
    blocks = compare_blocks(details[0], details[1], aligned.covered)
    return replace(aligned, blurs=blurs, blocks=blocks, fixed_details=details[0], warped_details=details[1])
