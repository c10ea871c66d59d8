"""Edits that put the whole image on a larger canvas."""

import numpy as np

from augmentations.edits.geometry import letterbox, rotate_whole

PICTURE = np.full((20, 40, 3), 200, np.uint8)


def test_a_quarter_turn_swaps_the_sides_and_keeps_every_pixel() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
    assert (rotate_whole(image, 90, [0, 0, 0]) == np.rot90(image)).mean() > 0.95


def test_the_canvas_of_a_turned_image_holds_it_whole_and_fills_the_corners() -> None:
    turned = rotate_whole(PICTURE, 30, [10, 0, 0])
    assert turned.shape == (37, 45, 3)  # 20 cos + 40 sin, 40 cos + 20 sin
    assert turned[0, 0].tolist() == [10, 0, 0]
    assert abs((turned[..., 0] == 200).sum() - PICTURE[..., 0].size) < 0.12 * PICTURE[..., 0].size


def test_a_letterbox_of_a_colour_has_the_image_in_its_middle() -> None:
    boxed = letterbox(PICTURE, 1.0, 2.0, [1, 2, 3])
    assert boxed.shape == (40, 40, 3)
    assert (boxed[10:30] == 200).all() and (boxed[:10] == [1, 2, 3]).all() and (boxed[30:] == [1, 2, 3]).all()


def test_a_letterbox_without_a_colour_is_filled_with_the_blurred_image() -> None:
    image = np.zeros((20, 40, 3), np.uint8)
    image[:, 20:] = 255
    boxed = letterbox(image, 1.0, 2.0, None)
    assert (boxed[10:30] == image).all()
    assert boxed[2, :5].max() < 40 and boxed[2, -5:].min() > 215 and 0 < boxed[2, 20, 0] < 255
