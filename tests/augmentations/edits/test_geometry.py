"""Edits of shape and colour by their numbers."""

from typing import Any

import cv2
import numpy as np
import pytest

from image_copies.augmentations.edits.geometry import letterbox, rotate_whole
from image_copies.augmentations.edits.registry import Image
from image_copies.data.procedural import draw_picture
from image_copies.data.squares import resize_square

FLAT = np.full((20, 40, 3), 200, np.uint8)


def test_a_turned_image_is_whole_on_its_canvas() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
    assert (rotate_whole(image, 90, [0, 0, 0]) == np.rot90(image)).mean() > 0.95
    turned = rotate_whole(FLAT, 30, [10, 0, 0])
    assert turned.shape == (37, 45, 3)  # 20 cos + 40 sin, 40 cos + 20 sin
    assert turned[0, 0].tolist() == [10, 0, 0]
    assert abs((turned[..., 0] == 200).sum() - FLAT[..., 0].size) < 0.12 * FLAT[..., 0].size


def test_a_letterbox_has_the_image_in_its_middle_on_a_colour_or_on_itself_blurred() -> None:
    boxed = letterbox(FLAT, 1.0, 2.0, [1, 2, 3])
    assert boxed.shape == (40, 40, 3)
    assert (boxed[10:30] == 200).all() and (boxed[:10] == [1, 2, 3]).all() and (boxed[30:] == [1, 2, 3]).all()
    image = np.zeros((20, 40, 3), np.uint8)
    image[:, 20:] = 255
    boxed = letterbox(image, 1.0, 2.0, None)
    assert (boxed[10:30] == image).all()
    assert boxed[2, :5].max() < 40 and boxed[2, -5:].min() > 215 and 0 < boxed[2, 20, 0] < 255


@pytest.mark.parametrize("side", [64, 96, 240])
def test_a_letterbox_is_blurred_as_if_at_its_whole_size_in_a_fraction_of_the_work(
    side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, size = resize_square(draw_picture(np.random.default_rng(5), 256), side), (round(1.6 * side), side)
    blur = 0.06 * size[0]
    expected = cv2.GaussianBlur(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR), (0, 0), blur)
    direct, blurred = cv2.GaussianBlur, list[int]()

    def noted(pixels: Image, *arguments: Any, **how: Any) -> Any:
        blurred.append(pixels.shape[0] * pixels.shape[1])
        return direct(pixels, *arguments, **how)

    monkeypatch.setattr(cv2, "GaussianBlur", noted)
    boxed = letterbox(image, 1.6, 1.0, None)
    border = np.r_[0 : (size[0] - side) // 2, (size[0] + side) // 2 : size[0]]  # the image itself is in the middle
    apart = np.abs(boxed[:, border].astype(int) - expected[:, border])
    assert apart.max() <= 8 and apart.mean() <= 0.5
    assert blurred == [size[0] * side] if blur < 8 else blurred[0] <= size[0] * side / 3.5
