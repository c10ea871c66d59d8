"""Registration of two pictures: by their local features or, where these are too few, as whole frames; the pixels decide."""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.agreement import Agreement, measure_agreement
from image_copies.matching.verification.alignment import Aligned, Homography, align
from image_copies.matching.verification.geometry import Evidence, map_pixels, verify
from image_copies.matching.verification.picture import THUMBNAIL, Picture

FEWEST_INLIERS = 6  # features from which a map is tried; the pixels decide whether it holds
SURE_MEDIAN = 0.7  # median correlation from which no further map is tried
MIN_LIKENESS = 0.5  # correlation of thumbnails from which whole frames are laid on each other
# maps of the square 0…1 onto itself: four turns, and those of the mirror image
TURNS: tuple[Homography, ...] = tuple(
    np.array(
        [[x * mirror, y, (1 - x * mirror - y) / 2], [-y * mirror, x, (1 + y * mirror - x) / 2], [0, 0, 1]]
    )
    for mirror in (1, -1)
    for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))
)


@dataclass(frozen=True)
class Registration:
    """Two pictures laid on each other.

    Attributes:
        inliers: Number of features that agree on the map; 0 where the whole frames were laid on each other.
        matched: Number of features that agree on any map, were it not this one.
        agreement: What their pixels say.
        aligned: The two in one frame.
    """

    inliers: int
    matched: int
    agreement: Agreement
    aligned: Aligned


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
        found = Registration(inliers, matched, measure_agreement(aligned), aligned)
        if best is None or found.agreement.median > best.agreement.median:
            best = found
        if best.agreement.median >= SURE_MEDIAN:
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
    turned = [_compare_turned(query.thumbnail, reference.thumbnail, turn) for turn in TURNS]
    best = int(np.argmax(np.abs(turned)))
    if abs(turned[best]) >= MIN_LIKENESS:
        yield 0, TURNS[best], turned[best] < 0


def _compare_turned(query: NDArray[np.float64], reference: NDArray[np.float64], turn: Homography) -> float:
    """Return the correlation of thumbnails when the query is turned."""
    mapped = map_pixels(turn, query.shape, reference.shape)
    shown = cv2.warpPerspective(query, mapped, (THUMBNAIL, THUMBNAIL), flags=cv2.INTER_NEAREST)
    return float((shown * reference).sum())
