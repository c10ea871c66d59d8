"""Registration of two pictures: by their local features or, where these are too few, as whole frames; the pixels decide."""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from image_copies.data.arrays import Bools, Float64s

from .alignment import (
    BLOCK,
    LAST_REACH,
    MIN_TEXTURE,
    STRIDE,
    Aligned,
    Grey,
    Homography,
    align,
    block_centres,
    block_means,
    find_displacements,
    invert,
    map_points,
    vary,
)
from .edits import MIN_COVERED
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


@dataclass(frozen=True)
class Registration:
    """Two pictures laid on each other.

    Attributes:
        inliers: Number of features that agree on the map; 0 where the whole frames were laid on each other.
        matched: Number of features that agree on any map, were it not this one.
        aligned: The two in one frame.
        blocks: Number of blocks that show something in at least one picture, where both have pixels.
        median: Median correlation of these blocks, −1…1; −1 without blocks.
        changed: Share 0…1 of these blocks in which the pictures show different things.
        moved: Share 0…1 of the changed blocks whose content is found near by in the other picture.
        parallax: Mean displacement of neighbouring blocks in pixels that three quarters of them stay below; NaN without blocks.
        perspective: Pixels by which the map differs from an affine one (ninetieth percentile over the blocks).
        outside: Share 0…1 of a picture that shows something outside the other one; of the picture where it is smaller.
    """

    inliers: int
    matched: int
    aligned: Aligned
    blocks: int
    median: float
    changed: float
    moved: float
    parallax: float
    perspective: float
    outside: float

    @property
    def is_covered(self) -> bool:
        """Whether so much differs that it is said, as what a caption covers."""
        return self.changed >= MIN_COVERED


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
        aligned = align(own, other, map_pixels(shares, own.shape, other.shape), negative)
        if aligned is None:
            continue
        found = _compare(aligned, inliers, matched)
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


def _compare(aligned: Aligned, inliers: int, matched: int) -> Registration:
    """Measure how well two aligned pictures agree."""
    correlation, first, second = aligned.blocks
    both = aligned.textured
    gain = float(np.median((first / np.maximum(second, 0.1))[both])) if both.any() else 1.0
    shown = both | (aligned.shared & (np.maximum(first, gain * second) > CLEAR_TEXTURE))
    values = correlation[shown]
    apart = shown & (correlation < CHANGED_BELOW)
    alike = _find_alike(aligned)
    changed = apart & ~alike
    # along an edge, a displacement is not determined
    moved = find_displacements(*aligned.details, both & _find_corners(aligned.details[0]), LAST_REACH)
    return Registration(
        inliers=inliers,
        matched=matched,
        aligned=aligned,
        blocks=len(values),
        median=float(np.median(values)) if len(values) else -1.0,
        changed=float(changed.sum() / max(1, len(values))),
        moved=_measure_motion(aligned, apart, alike),
        parallax=_measure_parallax(moved),
        perspective=_measure_perspective(aligned, moved),
        outside=min(
            _measure_outside(aligned.fixed, aligned.covered), _measure_outside(aligned.moving, aligned.seen)
        ),
    )


def _find_alike(aligned: Aligned) -> Bools:
    """Return which blocks [rows, columns] are the same with the tones of one picture, as where the other's tones were cut off."""
    apart = [block_means(np.square(own - other)) for own, other in aligned.toned]
    return np.asarray(np.minimum(*apart) < MIN_TEXTURE**2, np.bool_)


def _measure_parallax(moved: Float64s) -> float:
    """Return the upper quartile of the mean displacements of neighbouring blocks: noise averages out, depth does not."""
    found = ~np.isnan(moved[..., 0])
    count = _sum_neighbours(found.astype(np.float32))
    x, y = (
        _sum_neighbours(np.nan_to_num(moved[..., axis]).astype(np.float32)) / np.maximum(count, 1)
        for axis in (0, 1)
    )
    lengths = np.hypot(x, y)[found & (count >= MIN_NEIGHBOURS)]
    return float(np.percentile(lengths, 75)) if len(lengths) else float("nan")


def _measure_perspective(aligned: Aligned, moved: Float64s) -> float:
    """Return by how many pixels the projective map that fits the displaced blocks differs from an affine one."""
    found = ~np.isnan(moved[..., 0])
    if found.sum() < HOMOGRAPHY_BLOCKS:
        return 0.0
    places = block_centres(found.shape)[found]
    target = places + moved[found]
    source = map_points(invert(aligned.homography), places)
    projective, _ = cv2.findHomography(source, target)
    if projective is None:
        return 0.0
    mapped, places = (
        map_points(np.asarray(projective, np.float64), source),
        np.c_[source, np.ones(len(source))],
    )
    affine, *_ = np.linalg.lstsq(places, mapped, rcond=None)
    return float(np.percentile(np.linalg.norm(places @ affine - mapped, axis=1), 90))


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
        cv2.boxFilter(values, cv2.CV_32F, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT), np.float32
    )


def _measure_motion(aligned: Aligned, apart: Bools, alike: Bools) -> float:
    """Return the share of blocks that lie elsewhere in the other picture: what moved, unlike what was laid over or is alike."""
    places = np.argwhere(apart)
    places = places[:: max(1, -(-len(places) // MAX_MOTION_TESTS))]
    searched = moved = 0
    for row, column in (places * STRIDE).tolist():
        for own, other in (aligned.details, aligned.details[::-1]):
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
            moved += peak > MOTION_PEAK and away > MIN_MOTION and not alike[row // STRIDE, column // STRIDE]
    return moved / searched if searched else 0.0


def _measure_outside(picture: Grey, covered: Grey) -> float:
    """Return the share of a picture [h, w] that shows something where the other one has no pixels."""
    return float(((vary(picture) > MIN_TEXTURE**2) & (covered < 0.5)).mean())
