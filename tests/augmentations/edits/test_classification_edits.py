"""The edits of image classification: a crop of a given area and shape, a shift along a principal colour."""

import numpy as np

from image_copies.augmentations.edits.colour import pca_lighting
from image_copies.augmentations.edits.geometry import resized_crop

PICTURE = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)


def test_resized_crop_has_the_requested_area_and_aspect_ratio() -> None:
    part = resized_crop(PICTURE, area=0.25, ratio=1.0, x=1.0, y=0.0)
    assert part.shape[:2] == (35, 35)
    assert (part == PICTURE[:35, -35:]).all()


def test_lighting_moves_all_pixels_along_one_colour() -> None:
    grey = np.full((4, 4, 3), 128, np.uint8)
    moved = pca_lighting(grey, [0.3, 0.0, 0.0]).astype(int) - 128
    assert (moved == moved[0, 0]).all() and (moved[0, 0] < 0).all()
    assert (pca_lighting(PICTURE, [0.0, 0.0, 0.0]) == PICTURE).all()
