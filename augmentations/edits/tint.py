"""Edits that replace colours by a few others."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import coloured, grey_of, mix
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("tint")
def duotone(image: Image, dark: list[int], light: list[int], strength: float) -> Image:
    """Mix with a print in two inks: black becomes `dark`, white `light`."""
    inks = np.linspace(dark, light, 256).round().astype(np.uint8)[None]
    return mix(image, as_uint8(cv2.LUT(coloured(grey_of(image)), inks)), strength)


@edit("tint")
def split_tone(image: Image, shadows: list[float], highlights: list[float]) -> Image:
    """Shift the channels by `shadows` [3] where a channel is dark and by `highlights` [3] where it is light, each −1…1."""
    value = np.linspace(0, 1, 256)[:, None]
    table = value + (1 - value) ** 2 * np.array(shadows) + value**2 * np.array(highlights)
    return as_uint8(cv2.LUT(image, (255 * table.clip(0, 1)).round().astype(np.uint8)[None]))


@edit("tint")
def turn_hue(image: Image, degrees: float, saturation: float) -> Image:
    """Turn all hues by `degrees`, and multiply their `saturation`."""
    colours = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    values = np.arange(256)[:, None] + np.array([round(degrees * 256 / 360), 0, 0])
    values[:, 0] %= 256
    values[:, 1] = np.minimum(values[:, 1] * saturation, 255)
    changed = cv2.LUT(colours, values.astype(np.uint8)[None])
    return as_uint8(cv2.cvtColor(changed, cv2.COLOR_HSV2RGB_FULL))
