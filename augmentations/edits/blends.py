"""Edits that show the image and another in the same place."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import blend_in, mix, unit_grid
from image_copies.augmentations.edits.registry import Image, pasting_edit
from image_copies.data.pixels import as_uint8


@pasting_edit("other", "blend")
def double_exposure(image: Image, other: Image, mode: str, strength: float) -> Image:
    """Mix with both images at once: their mean, or as light ("screen") or ink ("multiply") on one another."""
    second = as_uint8(cv2.resize(other, image.shape[1::-1], interpolation=cv2.INTER_AREA))
    if mode == "mean":
        return mix(image, second, strength / 2)
    if mode == "multiply":
        return mix(image, as_uint8(cv2.multiply(image, second, scale=1 / 255)), strength)
    return mix(image, as_uint8(255 - cv2.multiply(255 - image, 255 - second, scale=1 / 255)), strength)


@pasting_edit("other", "blend")
def fade_into(image: Image, other: Image, degrees: float, share: float) -> Image:
    """Fade the image into `other` towards `degrees`; `share` of its length is the other's."""
    second = as_uint8(cv2.resize(other, image.shape[1::-1], interpolation=cv2.INTER_AREA))
    (y, x), turn = unit_grid(image), np.deg2rad(degrees)
    along = (x * np.cos(turn) + y * np.sin(turn)) / (abs(np.cos(turn)) + abs(np.sin(turn)))
    return blend_in(image, second, np.clip((along - (1 - 2 * share)) / 0.5 + 0.5, 0, 1))
