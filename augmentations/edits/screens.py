"""Edits that look like photographs of screens."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import pixel_grid, scale_length, unit_grid
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("screen")
def screen_pixels(image: Image, period: float, glare: float, blue: float, strength: float) -> Image:
    """Photograph a screen: a grid of red, green and blue columns (`period` in pixels at TUNED_SIDE), `glare`, `blue`r light."""
    (y, x), (down, right) = pixel_grid(image), unit_grid(image)
    phase = 2 * np.pi / scale_length(period, image, 2.3)
    columns = np.stack([np.cos(x * phase + third) for third in (0.0, 2.1, 4.2)], axis=-1)
    rows = np.cos(y * phase)[..., None]
    light = (1 - strength * (0.5 - 0.35 * columns - 0.15 * rows)) * np.array([1 - blue, 1 - blue / 2, 1 + blue], np.float32)
    shine = 255 * glare * np.clip(1 - np.abs(right - down - 0.4) * 1.5, 0, 1)
    photographed: Image = np.clip(image * light + shine[..., None], 0, 255).astype(np.uint8)
    return photographed


@edit("screen")
def on_phone(image: Image, size: float, degrees: float, bars: float, colour: list[int]) -> Image:
    """Show the image on a phone with a black case and `bars` above and below, turned by `degrees` on a table of a `colour`."""
    height, width = image.shape[:2]
    tall, wide, edge = round(height * (1 + 2 * bars)), round(width * 1.1), max(2, round(0.05 * width))
    phone = np.full((tall, wide, 3), 15, np.uint8)
    top, left = (tall - height) // 2, (wide - width) // 2
    phone[edge : tall - edge, left : left + width] = 235
    phone[top : top + height, left : left + width] = image
    canvas = round(tall / size), round(wide / size)
    matrix = cv2.getRotationMatrix2D((wide / 2, tall / 2), degrees, 1.0)
    matrix[:, 2] += (canvas[1] - wide) / 2, (canvas[0] - tall) / 2
    return as_uint8(cv2.warpAffine(phone, matrix, canvas[::-1], borderMode=cv2.BORDER_CONSTANT, borderValue=colour))
