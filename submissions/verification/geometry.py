"""Do two pictures show the same thing in the same arrangement, and where?"""

from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from submissions.verification.features import Features

RATIO = 0.85  # the nearest descriptor against the second nearest, as distances (Lowe's test)
LEAST_SHARED = 8  # matches before a homography is fitted
TOLERANCE = 4.0  # pixels of the reduced picture
LEAST_INLIERS = 10
SMALLEST_SCALE, LARGEST_SCALE = 0.05, 20.0  # of lengths, query to reference
Change = Literal["", "mirrored", "inverted", "mirrored and inverted"]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Evidence:
    """What two pictures share.

    Attributes:
        inliers: features that one homography maps from the query to the reference.
        change: what had to be undone: the query is a mirror image or a negative.
        query_region: left, top, right, bottom of the shared part, as shares 0…1 of the query.
        reference_region: the same of the reference.
    """

    inliers: int
    change: Change
    query_region: Box
    reference_region: Box


def verify(query: Features, reference: Features) -> Evidence | None:
    """Find the homography that most features agree on, for the picture as it is, its mirror image and its negative.

    Args:
        query: features of one picture.
        reference: features of the other.

    Returns:
        The best evidence; None where fewer than `LEAST_INLIERS` features agree.
    """
    if min(len(query.points), len(reference.points)) < LEAST_SHARED:
        return None
    best: Evidence | None = None
    for change, changed in _changes(query):
        found = _fit(query, changed, reference, change)
        if found is not None and (best is None or found.inliers > best.inliers):
            best = found
        if best is not None and best.inliers >= 3 * LEAST_INLIERS:
            break  # beyond doubt
    return best


def _changes(query: Features) -> list[tuple[Change, Features]]:
    mirrored = query.mirrored()
    return [("", query), ("mirrored", mirrored), ("inverted", query.inverted()), ("mirrored and inverted", mirrored.inverted())]


def _fit(query: Features, changed: Features, reference: Features, change: Change) -> Evidence | None:
    shared_query, shared_reference = _shared(changed, reference)
    if len(shared_query) < LEAST_SHARED:
        return None
    source, target = changed.points[shared_query], reference.points[shared_reference]  # MAGSAC fits no reflections
    homography, mask = cv2.findHomography(source, target, cv2.USAC_MAGSAC, TOLERANCE, maxIters=2000, confidence=0.999)
    if homography is None or not _plausible(homography, source):
        return None
    inside = mask.ravel().astype(bool)
    count = min(len(np.unique(points[inside].round(), axis=0)) for points in (source, target))  # many to one is no evidence
    if count < LEAST_INLIERS:
        return None
    return Evidence(
        count,
        change,
        _box(query.points[shared_query][inside], query.width, query.height),
        _box(target[inside], reference.width, reference.height),
    )


def _shared(query: Features, reference: Features) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of features that are each other's best match and pass the ratio test."""
    cosines = query.descriptors @ reference.descriptors.T
    best = cosines.argmax(axis=1)
    rows = np.arange(len(cosines))
    nearest = np.sqrt(np.maximum(2 - 2 * cosines[rows, best], 0))
    cosines[rows, best] = -1
    second = np.sqrt(np.maximum(2 - 2 * cosines.max(axis=1), 1e-12))
    kept = nearest < RATIO * second
    return rows[kept], best[kept]


def _plausible(homography: NDArray[Any], points: NDArray[np.float32]) -> bool:
    """Whether the map neither folds the picture nor shrinks it to a point or a line."""
    left, top = points.min(axis=0)
    right, bottom = points.max(axis=0)
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float64)
    area = (right - left) * (bottom - top)
    projected = np.c_[corners, np.ones(4)] @ homography.T
    if area <= 0 or not np.isfinite(projected).all() or (projected[:, 2] * projected[0, 2] <= 0).any():
        return False
    mapped = projected[:, :2] / projected[:, 2:]
    sides = np.roll(mapped, -1, axis=0) - mapped
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    if not ((turns > 0).all() or (turns < 0).all()):
        return False
    scale = float(np.sqrt(abs(_area(mapped)) / area))
    lengths = np.linalg.norm(sides, axis=1)
    return SMALLEST_SCALE < scale < LARGEST_SCALE and lengths.min() > 0.1 * lengths.max() * min(1.0, _shape(corners))


def _shape(corners: NDArray[np.float64]) -> float:
    """The shorter side of a box over its longer one."""
    sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    return float(sides.min() / sides.max())


def _area(corners: NDArray[np.float64]) -> float:
    x, y = corners.T
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) / 2)


def _box(points: NDArray[np.float32], width: int, height: int) -> Box:
    (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
    return float(left / width), float(top / height), float(right / width), float(bottom / height)
