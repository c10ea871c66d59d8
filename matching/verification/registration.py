"""Registration of two pictures: by their local features or, where these are too few, as whole frames; the pixels decide."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.matching.verification.agreement import Agreement, measure_agreement
from image_copies.matching.verification.alignment import Aligned, Homography, align, reduce_picture
from image_copies.matching.verification.features import Features, detect_features, reduce_to_grey
from image_copies.matching.verification.geometry import Evidence, from_shares, verify

FEWEST_INLIERS = 6  # features from which a map is tried; the pixels decide whether it holds
SURE_MEDIAN = 0.7  # median correlation from which no further map is tried
THUMBNAIL, THUMBNAIL_COARSE = 32, 4.0  # pixels of a thumbnail's side, and of its structure that is removed
MIN_LIKENESS = 0.5  # correlation of thumbnails from which whole frames are laid on each other
TURNS: tuple[NDArray[np.float64], ...] = tuple(  # maps of the square −1…1 onto itself: four turns, and those of the mirror image
    np.array([[x * mirror, y, 0], [-y * mirror, x, 0], [0, 0, 1]], np.float64)
    for mirror in (1, -1)
    for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))
)


@dataclass(frozen=True)
class Prepared:
    """A picture, prepared to be registered with others.

    Attributes:
        pixels: uint8 [h, w, 3], RGB, reduced.
        grey: Grey values in which local features are found.
    """

    pixels: NDArray[np.uint8]
    grey: NDArray[np.uint8]

    @cached_property
    def features(self) -> Features:
        """Its local features; not needed where a pair's features were verified before."""
        return detect_features(self.grey)

    @cached_property
    def thumbnail(self) -> NDArray[np.float64]:
        """Details [THUMBNAIL, THUMBNAIL] of the whole frame, mean 0 and norm 1; all 0 where there are none."""
        grey = cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
        small = cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA)
        details = (small - cv2.GaussianBlur(small, (0, 0), THUMBNAIL_COARSE)).astype(np.float64)
        details -= details.mean()
        return details / max(float(np.linalg.norm(details)), 1e-6 * THUMBNAIL**2)


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


def prepare_picture(pixels: NDArray[np.uint8]) -> Prepared:
    """Prepare a picture [h, w, 3], RGB, to be registered."""
    return Prepared(reduce_picture(pixels), reduce_to_grey(pixels))


def register(query: Prepared, reference: Prepared, evidence: Evidence | None = None) -> Registration | None:
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
    for inliers, homography, negative in _propose_maps(query, reference, evidence):
        matched = max(matched, inliers)
        aligned = align(query.pixels, reference.pixels, homography, negative)
        if aligned is None:
            continue
        found = Registration(inliers, matched, measure_agreement(aligned), aligned)
        if best is None or found.agreement.median > best.agreement.median:
            best = found
        if best.agreement.median >= SURE_MEDIAN:
            break
    return best


def _propose_maps(query: Prepared, reference: Prepared, evidence: Evidence | None) -> Iterator[tuple[int, Homography, bool]]:
    """Yield the number of inliers, a map from the query's pixels to the reference's, and whether one is a negative."""
    if evidence is None or evidence.homography is None:
        evidence = verify(query.features, reference.features, FEWEST_INLIERS)
    if evidence is not None and evidence.homography is not None:
        source, target = from_shares(query.pixels.shape), from_shares(reference.pixels.shape)
        yield evidence.inliers, target @ evidence.homography @ np.linalg.inv(source), "inverted" in evidence.change
    turned = [_compare_turned(query.thumbnail, reference.thumbnail, turn) for turn in TURNS]
    best = int(np.argmax(np.abs(turned)))
    if abs(turned[best]) >= MIN_LIKENESS:
        frame = np.linalg.inv(_to_square(reference.pixels.shape)) @ TURNS[best] @ _to_square(query.pixels.shape)
        yield 0, frame, turned[best] < 0


def _to_square(shape: tuple[int, ...]) -> Homography:
    """Return the map of a frame [h, w] onto the square −1…1."""
    height, width = shape[:2]
    return np.array([[2 / width, 0, 1 / width - 1], [0, 2 / height, 1 / height - 1], [0, 0, 1]], np.float64)


def _compare_turned(query: NDArray[np.float64], reference: NDArray[np.float64], turn: Homography) -> float:
    """Return the correlation of thumbnails when the query is turned."""
    places = _to_square(query.shape)
    mapped = np.linalg.inv(places) @ turn @ places
    shown = cv2.warpPerspective(query, mapped, (THUMBNAIL, THUMBNAIL), flags=cv2.INTER_NEAREST)
    return float((shown * reference).sum())
