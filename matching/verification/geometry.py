"""Whether two pictures share content in the same geometric arrangement, and where: a robust homography of local features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Float32s, Float64s

from .features import CHANGES, Box, Change, Features, describe

# distance of the nearest descriptor over that of the second nearest (Lowe's ratio test)
MAX_DISTANCE_RATIO = 0.85
MAX_REPROJECTION_ERROR = 4.0  # pixels of the reduced picture
MIN_INLIERS = 10  # features that must agree with the homography for two pictures to count as verified
CERTAIN_INLIERS = 30  # with this many inliers, no further change of the picture is tried
MAX_SCALE = 20.0  # length in the reference over length in the query, or the reverse


@dataclass(frozen=True)
class Evidence:
    """What two pictures share.

    Attributes:
        inliers: Number of features that one homography maps from the query to the reference, at least MIN_INLIERS.
        change: Change of the query that had to be undone; empty if it is neither a mirror image nor a negative.
        query_region: Box of the shared part in the query.
        reference_region: Box of the shared part in the reference.
        homography: From the unchanged query to the reference [3, 3], in shares of widths and heights, as pictures are decoded at
            several sizes; None where the evidence was read from a file.
    """

    inliers: int
    change: Change
    query_region: Box
    reference_region: Box
    homography: Float64s | None = field(default=None, compare=False, repr=False)


def verify(
    query: Features, reference: Features, least: int = MIN_INLIERS, changes: Sequence[Change] = CHANGES
) -> Evidence | None:
    """Find the homography that most features agree on, for the picture unchanged, its mirror image and its negative.

    Args:
        query: Features of one picture, which keep what is made of them.
        reference: Features of the other picture.
        least: Number of features that must agree.
        changes: Those to try, one after the other, until one leaves no doubt.

    Returns:
        The evidence with the most inliers; None if fewer than `least` features agree.
    """
    if min(len(query.points), len(reference.points)) < least:
        return None
    target = describe(reference.histograms)
    best: Evidence | None = None
    for change in changes:
        found = _fit_homography(query, reference, target, change, least)
        if found is not None and (best is None or found.inliers > best.inliers):
            best = found
        if best is not None and best.inliers >= CERTAIN_INLIERS:
            break
    return best


def _fit_homography(
    query: Features, reference: Features, descriptors: Float32s, change: Change, least: int
) -> Evidence | None:
    points, own = query.changed(change)
    rows, others = _match_descriptors(own, descriptors)
    if len(np.unique(others)) < least:  # many to one is no evidence
        return None
    # MAGSAC fits no reflections
    source = points[rows]
    target = reference.points[others]
    homography, mask = cv2.findHomography(
        source, target, cv2.USAC_MAGSAC, MAX_REPROJECTION_ERROR, maxIters=2000, confidence=0.999
    )
    if homography is None or not _is_plausible(homography, source):
        return None
    inside = mask.ravel().astype(bool)
    count = min(len(np.unique(each[inside].round(), axis=0)) for each in (source, target))
    if count < least:
        return None
    if "mirrored" in change:
        homography = homography @ np.array([[-1, 0, query.width - 1], [0, 1, 0], [0, 0, 1]], np.float64)
    to_shares = np.linalg.inv(from_shares((reference.height, reference.width)))
    return Evidence(
        count,
        change,
        _compute_box(query.points[rows][inside], query),
        _compute_box(target[inside], reference),
        to_shares @ homography @ from_shares((query.height, query.width)),
    )


def from_shares(shape: tuple[int, ...]) -> Float64s:
    """Return the map from shares of a frame [h, w] to its pixels."""
    height, width = shape[:2]
    return np.array([[width, 0, -0.5], [0, height, -0.5], [0, 0, 1]], np.float64)


def map_pixels(shares: Float64s, query: tuple[int, ...], reference: tuple[int, ...]) -> Float64s:
    """Return the map of a query's pixels [h, w] to a reference's that is given in shares of both [3, 3]."""
    return np.asarray(from_shares(reference) @ shares @ np.linalg.inv(from_shares(query)), np.float64)


def _match_descriptors(query: Float32s, reference: Float32s) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the query [n, 128] that pass the ratio test, and their matches' rows in the reference [m, 128]."""
    cosines = query @ reference.T
    best = cosines.argmax(axis=1)
    rows = np.arange(len(cosines))
    nearest = np.sqrt(np.maximum(2 - 2 * cosines[rows, best], 0))
    cosines[rows, best] = -1
    second = np.sqrt(np.maximum(2 - 2 * cosines.max(axis=1), 1e-12))
    kept = nearest < MAX_DISTANCE_RATIO * second
    return rows[kept], best[kept]


def _is_plausible(homography: NDArray[Any], points: Float32s) -> bool:
    """Return whether a homography [3, 3] neither folds the box of some points nor collapses it."""
    left, top = points.min(axis=0)
    right, bottom = points.max(axis=0)
    corners = np.array([[left, top, 1], [right, top, 1], [right, bottom, 1], [left, bottom, 1]], np.float64)
    mapped = corners @ homography.T
    if (mapped[:, 2] * mapped[0, 2] <= 0).any():
        return False
    shape = (mapped[:, :2] / mapped[:, 2:]).astype(np.float32)
    ratio = cv2.contourArea(shape) / max((right - left) * (bottom - top), 1e-6)
    return bool(cv2.isContourConvex(shape)) and 1 / MAX_SCALE < np.sqrt(ratio) < MAX_SCALE


def _compute_box(points: Float32s, of: Features) -> Box:
    shares = points / (of.width, of.height)
    left, top = shares.min(axis=0).tolist()
    right, bottom = shares.max(axis=0).tolist()
    return left, top, right, bottom
