"""Edits that replace tones by others, as the curves of photo programs do."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import coloured, grey_of, mix
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("tone")
def tone_curve(image: Image, heights: list[float]) -> Image:
    """Map the values by a curve through `heights` 0…1 at equal distances, which may fall and turn back."""
    curve = np.interp(np.arange(256), np.linspace(0, 255, len(heights)), 255 * np.array(heights))
    return as_uint8(cv2.LUT(image, np.rint(curve).astype(np.uint8)))


@edit("tone")
def posterize(image: Image, levels: int) -> Image:
    """Keep `levels`, at least 2, values of each channel."""
    steps = np.rint(np.arange(256) / 255 * (levels - 1)) * (255 / (levels - 1))
    return as_uint8(cv2.LUT(image, np.rint(steps).astype(np.uint8)))


@edit("tone")
def two_tones(image: Image, level: float, strength: float) -> Image:
    """Mix with black and white: white where the grey is above `level` × its mean."""
    grey = grey_of(image)
    _, flat = cv2.threshold(grey, level * float(grey.mean()), 255, cv2.THRESH_BINARY)
    return mix(image, coloured(as_uint8(flat)), strength)


@edit("tone")
def equalize(image: Image, tiles: int, strength: float) -> Image:
    """Mix with local contrast stretched to the full range, in `tiles` × `tiles` parts of the image (HDR filters)."""
    spread = cv2.createCLAHE(clipLimit=40, tileGridSize=(tiles, tiles))
    return mix(image, as_uint8(cv2.merge([spread.apply(channel) for channel in cv2.split(image)])), strength)


@edit("tone")
def expose(image: Image, stops: float) -> Image:
    """Multiply the values by 2 to the power of `stops`; what becomes brighter than white is lost, as in a camera."""
    return as_uint8(cv2.convertScaleAbs(image, alpha=2**stops))
