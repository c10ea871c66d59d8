"""Copies are confirmed, with the right region, through mirror images, negatives, rotations and crops; others are not."""

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.matching.verification.features import Features, local_features
from image_copies.matching.verification.geometry import verify

Pixels = NDArray[np.uint8]


def picture(seed: int, height: int = 240, width: int = 320) -> Pixels:
    """Blobs and edges of all sizes, as photos have them."""
    rng = np.random.default_rng(seed)
    image = np.zeros((height, width, 3), np.uint8)
    for _ in range(150):
        centre = int(rng.integers(width)), int(rng.integers(height))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        if rng.random() < 0.5:
            cv2.circle(image, centre, int(rng.integers(3, 25)), colour, -1)
        else:
            end = int(centre[0] + rng.integers(-40, 40)), int(centre[1] + rng.integers(-40, 40))
            cv2.rectangle(image, centre, end, colour, -1)
    return image


ORIGINAL = picture(0)


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (lambda image: image, ""),
        (lambda image: image[:, ::-1], "mirrored"),
        (lambda image: image[::-1], "mirrored"),
        (lambda image: 255 - image, "inverted"),
        (lambda image: 255 - image[:, ::-1], "mirrored and inverted"),
        (np.rot90, ""),
        (lambda image: cv2.warpAffine(image, cv2.getRotationMatrix2D((160, 120), 30, 0.8), (320, 240)), ""),
        (lambda image: cv2.GaussianBlur(image, (5, 5), 1.5), ""),
        (lambda image: cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 15])[1], 1), ""),
        (lambda image: cv2.resize(image, (200, 220)), ""),
        (lambda image: (image * 0.4 + 30).astype(np.uint8), ""),
    ],
)
def test_edited_copies_are_confirmed(edit: Callable[[Pixels], Pixels], change: str) -> None:
    found = verify(local_features(np.ascontiguousarray(edit(ORIGINAL))), local_features(ORIGINAL))
    assert found is not None and found.change == change and found.inliers >= 10


@pytest.mark.parametrize("change", ["", "mirrored"])
def test_the_region_of_a_crop_pasted_elsewhere_is_found(change: str) -> None:
    """It is given in the picture itself where it is a mirror image."""
    query, crop = picture(7), ORIGINAL[100:220, 120:280]
    query[60:180, 40:200] = crop[:, ::-1] if change else crop
    found = verify(local_features(query), local_features(ORIGINAL))
    assert found is not None and found.change == change
    assert np.allclose(found.query_region, (40 / 320, 60 / 240, 200 / 320, 180 / 240), atol=0.08)
    assert np.allclose(found.reference_region, (120 / 320, 100 / 240, 280 / 320, 220 / 240), atol=0.08)


def test_unrelated_pictures_are_not_confirmed() -> None:
    features = [local_features(picture(seed)) for seed in range(12)]
    found = [verify(one, other) for a, one in enumerate(features) for b, other in enumerate(features) if a < b]
    assert len(found) == 66 and not any(found)


@pytest.mark.parametrize(
    "pixels", [np.full((100, 100, 3), 200), np.zeros((8, 300, 3)), np.indices((64, 64)).sum(0)[..., None].repeat(3, 2)]
)
def test_pictures_without_features_are_not_confirmed(pixels: NDArray[np.int64]) -> None:
    empty = local_features(pixels.astype(np.uint8))
    assert verify(empty, local_features(ORIGINAL)) is None and verify(empty, empty) is None


def test_a_repeated_pattern_is_not_taken_for_a_copy_of_one_point() -> None:
    one = local_features(ORIGINAL)
    same = Features(np.zeros_like(one.points) + 5, one.histograms, one.width, one.height)
    assert verify(same, one) is None


def group_of_points(groups: int, size: int) -> NDArray[np.float32]:
    """Points on a wide grid, each surrounded by others within two pixels."""
    centres = np.array([(40 + 60 * (row % 4), 40 + 50 * (row // 4)) for row in range(groups)], np.float32)
    around = np.array([(0, 0), (2, 0), (0, 2)], np.float32)[:size]
    return (centres[:, None] + around).reshape(-1, 2)


@pytest.mark.parametrize("repeated", ["query", "reference"])
def test_points_that_repeat_in_one_picture_only_are_counted_once(repeated: str) -> None:
    """24 features agree with one homography, but they are eight points of the other picture."""
    rng = np.random.default_rng(0)
    histograms = rng.integers(0, 256, (24, 128), dtype=np.uint8)
    many, few = group_of_points(8, 3), np.repeat(group_of_points(8, 1), 3, axis=0)
    points = {"query": few, "reference": few} | {repeated: many}
    query, reference = (Features(points[side], histograms, 320, 240) for side in ("query", "reference"))
    assert verify(query, reference) is None
    apart = Features(many, histograms, 320, 240)
    found = verify(apart, apart)
    assert found is not None and found.inliers == 24


def test_what_is_kept_of_a_query_is_evidence_as_the_query_is() -> None:
    reference = local_features(ORIGINAL)
    for image in (ORIGINAL[:, ::-1], 255 - ORIGINAL, picture(3)):
        query = local_features(np.ascontiguousarray(image))
        assert verify(query, reference) == verify(query, reference) == verify(replace(query), reference)
