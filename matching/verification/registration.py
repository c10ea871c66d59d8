"""Registration of two pictures: by their local features or, where these are too few, as whole frames; the pixels decide.

A rough homography is refined until their details meet, at the coarser one's resolution.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Float64s, UInt8s

from . import alignment
from .alignment import BLOCK, MIN_TEXTURE, STRIDE, Grey, Grid, Homography
from .geometry import Evidence, map_pixels, verify
from .picture import Picture

FEWEST_INLIERS = 6  # features from which a map is tried; the pixels decide whether it holds
SURE_MEDIAN = 0.7  # median correlation from which no further map is tried
MIN_LIKENESS = 0.5  # correlation of thumbnails from which whole frames are laid on each other
HOMOGRAPHY_BLOCKS = 12  # displaced blocks from which a homography is fitted
CHANGED_BELOW = 0.6  # correlation of a block below which something else is seen there
# grey levels of a block that shows something, where the other picture shows nothing
CLEAR_TEXTURE = 2 * MIN_TEXTURE
MIN_NEIGHBOURS = 4  # displaced blocks of the 3 × 3 around one from which their mean is taken
MIN_CORNER = 0.1  # least strength of structure across a block's strongest direction, over that along it
PATCH_MARGIN = 4  # pixels left out on each side of a block that is searched elsewhere
MOTION_REACH = 24  # pixels within which it is searched
MIN_MOTION, MOTION_PEAK = 1.5, 0.75  # pixels, and correlation, from which it has moved
MAX_MOTION_TESTS = 40  # blocks that are searched elsewhere
MIN_COVERED = 0.004  # share of the pixels, or blocks, that something laid over a copy covers, at least
FULL = 0.999  # share of a block that both pictures must cover
FIRST_REACH, LAST_REACH = 6, 3  # pixels within which blocks are searched
MAX_FIT_ERROR = 1.0  # pixels
MIN_BLOCKS = 4  # displaced blocks from which a map is fitted
ENOUGH_BLOCKS = 40  # displaced blocks that determine a map well
BLURS = (0.7, 1.2, 2.0, 3.0)  # standard deviations in pixels by which the sharper picture is blurred
BLUR_GAIN = 0.003  # of the median correlation, by which more blur must be better
NO_SCALE = 0.95  # a picture is not reduced for a scale above this


@dataclass(frozen=True, eq=False)
class Registration:
    """Two pictures laid on each other, in the frame of the coarser one; what is measured of them is measured when asked for.

    Attributes:
        fixed: Grey values [h, w] of the picture that gives the frame.
        moving: Grey values of the other picture, in its own frame; negated for a negative.
        homography: From the other picture's pixels to the frame's [3, 3].
        blurs: Standard deviations in pixels by which `fixed` and `warped` are blurred to look alike, one of them 0.
        swapped: Whether the frame is the query's, not the reference's.
        inliers: Number of features that agree on the map; 0 where the whole frames were laid on each other.
        matched: Number of features that agree on any map, were it not this one.
    """

    fixed: Grey
    moving: Grey
    homography: Homography
    blurs: tuple[float, float] = 0.0, 0.0
    swapped: bool = False
    inliers: int = 0
    matched: int = 0

    @cached_property
    def warped(self) -> Grey:
        """Grey values [h, w] of the other picture, warped into the frame."""
        return alignment.warp(self.moving, self.homography, self.fixed.shape)

    @cached_property
    def covered(self) -> Grey:
        """1 where the warped picture has pixels, else 0, [h, w]."""
        return alignment.find_covered(self.moving.shape, self.homography, self.fixed.shape)

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
        return alignment.find_covered(
            self.fixed.shape, alignment.invert(self.homography), self.moving.shape
        )

    @cached_property
    def details(self) -> tuple[Grey, Grey]:
        """Details [h, w] of both, blurred to look alike."""
        fixed, warped = self.alike
        return alignment.keep_details(fixed), alignment.keep_details(warped)

    def blur(self, deviations: tuple[float, float]) -> "Registration":
        """Return the same, blurred by these standard deviations."""
        blurred = replace(self, blurs=deviations)
        vars(blurred).update(warped=self.warped, covered=self.covered, shared=self.shared)
        return blurred

    @cached_property
    def by_block(self) -> tuple[Grid, Grid, Grid]:
        """The correlation of their blocks, −1…1, and the standard deviations of those of `fixed` and `warped`."""
        return alignment.compare_blocks(*self.details)

    @cached_property
    def shared(self) -> Bools:
        """Blocks that both cover whole."""
        return alignment.block_means(self.covered) > FULL

    @cached_property
    def textured(self) -> Bools:
        """Shared blocks that show something in both."""
        _, first, second = self.by_block
        return np.asarray(self.shared & (np.minimum(first, second) > MIN_TEXTURE), np.bool_)

    @cached_property
    def fit(self) -> float:
        """Median correlation of the textured blocks, by which maps and blurs are chosen; −1 where there are fewer than three."""
        values = self.by_block[0][self.textured]
        return float(np.median(values)) if len(values) >= 3 else -1.0

    @cached_property
    def inside(self) -> Bools:
        """Where both are seen [h, w], but for the edges."""
        around = np.ones((alignment.WINDOW, alignment.WINDOW), np.uint8)
        eroded = cv2.erode(self.covered, around, borderType=cv2.BORDER_CONSTANT, borderValue=0.0)
        return np.asarray(eroded > 0.5, np.bool_)

    @cached_property
    def toned(self) -> tuple[tuple[Grey, Grey], tuple[Grey, Grey]]:
        """Both as in `alike`, first with the tones of the fixed one, and then with those of the other one."""
        fixed, warped = self.alike
        return (fixed, alignment.match_tones(warped, fixed, self.inside)), (
            alignment.match_tones(fixed, warped, self.inside),
            warped,
        )

    @cached_property
    def _shown(self) -> Bools:
        """Shared blocks that show something in at least one picture."""
        _, first, second = self.by_block
        both = self.textured
        gain = float(np.median((first / np.maximum(second, 0.1))[both])) if both.any() else 1.0
        return np.asarray(
            both | (self.shared & (np.maximum(first, gain * second) > CLEAR_TEXTURE)), np.bool_
        )

    @cached_property
    def _apart(self) -> Bools:
        """Those of them in which other things may be seen."""
        return self._shown & (self.by_block[0] < CHANGED_BELOW)

    @cached_property
    def _same_toned(self) -> Bools:
        """Blocks that are the same with the tones of one picture, as where the other's tones were cut off."""
        apart = [alignment.block_means(np.square(own - other)) for own, other in self.toned]
        return np.asarray(np.minimum(*apart) < MIN_TEXTURE**2, np.bool_)

    @cached_property
    def _displacements(self) -> Float64s:
        """Displacements [rows, columns, 2] of the textured blocks; along an edge, they are not determined."""
        chosen = self.textured & _find_corners(self.details[0])
        return alignment.find_displacements(*self.details, chosen, LAST_REACH)

    @cached_property
    def blocks(self) -> int:
        """Number of blocks that show something in at least one picture, where both have pixels."""
        return int(self._shown.sum())

    @cached_property
    def median(self) -> float:
        """Median correlation of these blocks, −1…1; −1 without blocks."""
        return float(np.median(self.by_block[0][self._shown])) if self.blocks else -1.0

    @cached_property
    def changed(self) -> float:
        """Share 0…1 of these blocks in which the pictures show different things."""
        return float((self._apart & ~self._same_toned).sum() / max(1, self.blocks))

    @property
    def is_covered(self) -> bool:
        """Whether so much differs that it is said, as what a caption covers."""
        return self.changed >= MIN_COVERED

    @cached_property
    def moved(self) -> float:
        """Share 0…1 of the changed blocks whose content is found near by in the other picture, unlike what was laid over."""
        places = np.argwhere(self._apart)
        places = places[:: max(1, -(-len(places) // MAX_MOTION_TESTS))]
        searched = moved = 0
        for row, column in (places * STRIDE).tolist():
            for own, other in (self.details, self.details[::-1]):
                patch = own[
                    row + PATCH_MARGIN : row + BLOCK - PATCH_MARGIN,
                    column + PATCH_MARGIN : column + BLOCK - PATCH_MARGIN,
                ]
                if patch.std() < CLEAR_TEXTURE:
                    continue
                searched += 1
                upper = max(0, row - MOTION_REACH)
                before = max(0, column - MOTION_REACH)
                area = other[upper : row + BLOCK + MOTION_REACH, before : column + BLOCK + MOTION_REACH]
                _, peak, _, (x, y) = cv2.minMaxLoc(cv2.matchTemplate(area, patch, cv2.TM_CCOEFF_NORMED))
                away = np.hypot(x + before - column - PATCH_MARGIN, y + upper - row - PATCH_MARGIN)
                moved += (
                    peak > MOTION_PEAK
                    and away > MIN_MOTION
                    and not self._same_toned[row // STRIDE, column // STRIDE]
                )
        return moved / searched if searched else 0.0

    @cached_property
    def parallax(self) -> float:
        """Displacement of neighbouring blocks in pixels that three quarters of them stay below; NaN without blocks.

        It is a mean of neighbours: noise averages out, depth does not.
        """
        found = ~np.isnan(self._displacements[..., 0])
        count = _sum_neighbours(found.astype(np.float32))
        x, y = (
            _sum_neighbours(np.nan_to_num(self._displacements[..., axis]).astype(np.float32))
            / np.maximum(count, 1)
            for axis in (0, 1)
        )
        lengths = np.hypot(x, y)[found & (count >= MIN_NEIGHBOURS)]
        return float(np.percentile(lengths, 75)) if len(lengths) else float("nan")

    @cached_property
    def perspective(self) -> float:
        """Pixels by which the projective map that fits the blocks differs from an affine one (ninetieth percentile)."""
        found = ~np.isnan(self._displacements[..., 0])
        if found.sum() < HOMOGRAPHY_BLOCKS:
            return 0.0
        places = alignment.block_centres(found.shape)[found]
        target = places + self._displacements[found]
        source = alignment.map_points(alignment.invert(self.homography), places)
        projective, _ = cv2.findHomography(source, target)
        if projective is None:
            return 0.0
        mapped = alignment.map_points(np.asarray(projective, np.float64), source)
        places = np.c_[source, np.ones(len(source))]
        affine, *_ = np.linalg.lstsq(places, mapped, rcond=None)
        return float(np.percentile(np.linalg.norm(places @ affine - mapped, axis=1), 90))

    @cached_property
    def outside(self) -> float:
        """Share 0…1 of a picture that shows something outside the other one; of the picture where it is smaller."""
        return min(_measure_outside(self.fixed, self.covered), _measure_outside(self.moving, self.seen))


def register(query: Picture, reference: Picture, evidence: Evidence | None = None) -> Registration | None:
    """Lay a picture on another and compare their pixels.

    Args:
        query: One picture.
        reference: The other.
        evidence: What is known of their features, if they were verified before.

    Returns:
        The registration whose pixels agree best; None if no map was found.
    """
    best: Registration | None = None
    matched = 0
    own, other = query.pixels, reference.pixels
    for inliers, shares, negative in _propose_maps(query, reference, evidence):
        matched = max(matched, inliers)
        rough = map_pixels(shares, own.shape, other.shape)
        found = align(own, other, rough, negative, inliers, matched)
        if found is None:
            continue
        if best is None or found.median > best.median:
            best = found
        if best.median >= SURE_MEDIAN:
            break
    return best


def _propose_maps(
    query: Picture, reference: Picture, evidence: Evidence | None
) -> Iterator[tuple[int, Homography, bool]]:
    """Yield the number of inliers, a map in shares of both pictures, and whether one is a negative."""
    if evidence is None or evidence.homography is None:
        evidence = verify(query.close_features, reference.close_features, FEWEST_INLIERS)
    if evidence is not None and evidence.homography is not None:
        yield evidence.inliers, evidence.homography, "inverted" in evidence.change
    likeness = cv2.matchTemplate(query.thumbnail, reference.thumbnail, cv2.TM_CCOEFF_NORMED).item()
    if abs(likeness) >= MIN_LIKENESS:
        yield 0, np.eye(3), likeness < 0


def align(
    query: UInt8s,
    reference: UInt8s,
    homography: Homography,
    negative: bool,
    inliers: int = 0,
    matched: int = 0,
) -> Registration | None:
    """Lay a picture on another.

    Args:
        query: uint8 [h, w, 3], RGB, reduced.
        reference: uint8 [h, w, 3], RGB, reduced.
        homography: Roughly from the query's pixels to the reference's [3, 3].
        negative: Whether one of them is a negative of the other.
        inliers: Number of features that agree on the map.
        matched: Number of features that agree on any map.

    Returns:
        Both in one frame; None where they do not overlap, or by less than a block.
    """
    scale = float(np.sqrt(np.abs(np.linalg.det(alignment.find_steps(homography, query.shape[1::-1])))))
    if not 0 < scale < np.inf or not alignment.find_covered(query.shape, homography, reference.shape).any():
        return None
    fixed, moving = (reference, query) if scale <= 1 else (query, reference)
    rough = homography if scale <= 1 else alignment.invert(homography)
    factor = min(scale, 1 / scale)
    if factor < NO_SCALE:
        reduced = alignment.resize_by(moving, factor)
        rough = rough @ alignment.map_resized(moving.shape, reduced.shape)
        moving = reduced
    if min(*fixed.shape[:2], *moving.shape[:2]) < BLOCK:
        return None
    shown = -alignment.to_grey(moving) if negative else alignment.to_grey(moving)
    laid = Registration(
        alignment.to_grey(fixed),
        shown,
        rough / rough[2, 2],
        swapped=scale > 1,
        inliers=inliers,
        matched=matched,
    )
    aligned = _refine(_match_blur(laid), FIRST_REACH)
    return _refine(_match_blur(_refine(aligned, LAST_REACH)), LAST_REACH)


def _blur(picture: Grey, deviation: float) -> Grey:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), deviation), np.float32) if deviation else picture


def _refine(aligned: Registration, reach: int) -> Registration:
    """Lay the pictures by a map fitted to their blocks' displacements, if they agree better then."""
    chosen = _thin_out(aligned.textured)
    moved = alignment.find_displacements(*aligned.details, chosen, reach)
    found = ~np.isnan(moved[..., 0])
    centres = alignment.block_centres(chosen.shape)[found]
    before = alignment.map_points(alignment.invert(aligned.homography), centres)
    if len(centres) < MIN_BLOCKS:
        return aligned
    affine, _ = cv2.estimateAffine2D(before, centres + moved[found], ransacReprojThreshold=MAX_FIT_ERROR)
    if affine is None:
        return aligned
    again = replace(aligned, homography=np.vstack([affine, [0, 0, 1]]))
    return again if again.fit > aligned.fit else aligned


def _thin_out(chosen: Bools) -> Bools:
    """Return every second or third block of as many rows, where these are enough: their neighbours overlap them."""
    for apart in (3, 2):
        thinned = np.zeros_like(chosen)
        thinned[::apart, ::apart] = chosen[::apart, ::apart]
        if thinned.sum() >= ENOUGH_BLOCKS:
            return thinned
    return chosen


def _match_blur(aligned: Registration) -> Registration:
    """Blur the sharper picture as far as that makes the two more alike."""
    best = aligned.blur((0.0, 0.0))
    for deviations in ([(0.0, blur) for blur in BLURS], [(blur, 0.0) for blur in BLURS]):
        for pair in deviations:
            blurred = aligned.blur(pair)
            if blurred.fit <= best.fit + BLUR_GAIN:
                break
            best = blurred
    return best


def _find_corners(details: Grey) -> Bools:
    """Return which blocks [rows, columns] have structure in more than one direction."""
    height, width = details.shape
    half = BLOCK // 2
    values = cv2.cornerEigenValsAndVecs(details, BLOCK, 3)[
        half : height - half + 1 : STRIDE, half : width - half + 1 : STRIDE, :2
    ]
    found: Bools = values.min(axis=2) > MIN_CORNER * values.max(axis=2)
    return found


def _sum_neighbours(values: Grey) -> Grey:
    """Return the sum over the 3 × 3 blocks around each."""
    return np.asarray(
        cv2.boxFilter(values, cv2.CV_32F, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT),
        np.float32,
    )


def _measure_outside(picture: Grey, covered: Grey) -> float:
    """Return the share of a picture [h, w] that shows something where the other one has no pixels."""
    return float(((alignment.vary(picture) > MIN_TEXTURE**2) & (covered < 0.5)).mean())
