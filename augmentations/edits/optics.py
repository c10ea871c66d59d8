"""Edits that blur as lenses and panes do; lengths are in pixels at TUNED_SIDE."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import displace, pixel_grid, scale_length
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("optics")
def zoom_blur(image: Image, reach: float) -> Image:
    """Blur from the middle outwards, as when zooming while the shutter is open: enlarged by up to 1 + `reach`."""
    height, width = image.shape[:2]
    total = np.zeros(image.shape, np.float32)
    for factor in np.linspace(1, 1 + reach, 8):
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 0, factor)
        total += cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    return np.rint(total / 8).astype(np.uint8)


@edit("optics")
def defocus(image: Image, radius: float) -> Image:
    """Spread every point over a disc of `radius`, as a lens out of focus does."""
    reach = scale_length(radius, image, 0.5)
    across = np.arange(-int(np.ceil(reach)), int(np.ceil(reach)) + 1)
    disc = np.clip(reach + 0.5 - np.hypot(across[:, None], across), 0, 1).astype(np.float32)
    return as_uint8(cv2.filter2D(image, -1, disc / disc.sum(), borderType=cv2.BORDER_REFLECT_101))


@edit("optics")
def frosted_glass(image: Image, reach: float, seed: int) -> Image:
    """Take every pixel from somewhere within `reach`, as seen through rough glass."""
    height, width = image.shape[:2]
    away = np.random.default_rng(seed).uniform(-1, 1, (2, height, width)).astype(np.float32) * scale_length(reach, image, 0.0)
    y, x = pixel_grid(image)
    return displace(image, x + away[0], y + away[1])
