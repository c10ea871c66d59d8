"""Edits that draw the image in another manner, as the filters of photo apps do."""

import cv2
import numpy as np

from image_copies.augmentations.edits.registry import TUNED_SIDE, Image, edit
from image_copies.data.pixels import as_uint8


@edit("art")
def solarize(image: Image, threshold: int) -> Image:
    """Invert the values from `threshold` 0…256 on."""
    return np.where(image < threshold, image, 255 - image)


@edit("art")
def halftone(image: Image, period: float, degrees: float, strength: float) -> Image:
    """Print in dots on a grid turned by `degrees`; `period` in pixels at TUNED_SIDE, strength 1 leaves nothing but dots."""
    height, width = image.shape[:2]
    y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)
    turn, frequency = np.deg2rad(degrees), 2 * np.pi / max(3.0, period * min(height, width) / TUNED_SIDE)
    across = np.cos((x * np.cos(turn) + y * np.sin(turn)) * frequency) * np.cos((y * np.cos(turn) - x * np.sin(turn)) * frequency)
    dots = np.clip(127.5 + 4 * (image - (127.5 - 110 * across)[..., None]), 0, 255)
    mixed: Image = np.rint((1 - strength) * image + strength * dots).astype(np.uint8)
    return mixed


@edit("art")
def sketch(image: Image, radius: float, strength: float) -> Image:
    """Draw the edges as with a pencil (grey over its blurred negative); `radius` in pixels at TUNED_SIDE, strength 0…1."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    soft = cv2.GaussianBlur(255 - grey, (0, 0), max(0.5, radius * min(grey.shape) / TUNED_SIDE))
    drawn = cv2.divide(grey, np.maximum(255 - soft, 1), scale=256)
    return as_uint8(cv2.addWeighted(image, 1 - strength, cv2.cvtColor(drawn, cv2.COLOR_GRAY2RGB), strength, 0))
