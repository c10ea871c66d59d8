"""Edits that change colours. Images are RGB uint8 [h, w, 3] and never changed in place."""

import cv2
import numpy as np
from numpy.typing import NDArray

from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8

# Principal components of ImageNet's colours (A. Krizhevsky et al., 2012), as MultiGrain's `full` set uses them.
LIGHTING_VALUES = np.array([0.2175, 0.0188, 0.0045], np.float32)
LIGHTING_VECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float32)


@edit("colour")
def color_jitter(image: Image, brightness: float, contrast: float, saturation: float) -> Image:
    """Change brightness, contrast (about the mean grey) and saturation (about each pixel's grey), in this order.

    Each factor is at least 0, and 1 changes nothing. All three are affine maps of RGB, so they are multiplied into one matrix,
    which avoids rounding between them.
    """
    mean_grey = float(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).mean()) * brightness
    grey = np.tile(np.array([0.299, 0.587, 0.114], np.float32), (3, 1))
    mix = saturation * np.eye(3, dtype=np.float32) + (1 - saturation) * grey
    matrix = np.empty((3, 4), np.float32)
    matrix[:, :3] = mix * (brightness * contrast)
    matrix[:, 3] = mix.sum(axis=1) * mean_grey * (1 - contrast)
    return as_uint8(cv2.transform(image, matrix))


@edit("colour")
def grayscale(image: Image) -> Image:
    """Replace all three channels by the luminosity."""
    return as_uint8(cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB))


@edit("colour")
def opacity(image: Image, level: float) -> Image:
    """Blend with white: a `level` of 1 keeps the image, 0 gives white."""
    return as_uint8(cv2.convertScaleAbs(image, alpha=level, beta=255 * (1 - level)))


@edit("channels")
def invert_channels(image: Image, red: bool, green: bool, blue: bool) -> Image:
    """Invert the chosen ones of the channels `red`, `green` and `blue`: 255 − value."""
    values = np.arange(256, dtype=np.uint8)[:, None] ^ np.array([255 * red, 255 * green, 255 * blue], np.uint8)
    return as_uint8(cv2.LUT(image, values[None]))


@edit("channels")
def swap_channels(image: Image, order: list[int]) -> Image:
    """Replace channel i by channel order[i]; a channel may be used more than once."""
    channels = cv2.split(image)
    return as_uint8(cv2.merge([channels[index] for index in order]))


@edit("channels")
def shift_channels(image: Image, down: float, right: float) -> Image:
    """Shift red by (down, right) and blue the opposite way, as fractions of the short side; the border is cropped."""
    short = min(image.shape[:2])
    i, j = round(down * short), round(right * short)
    rows, columns = image.shape[0] - 2 * abs(i), image.shape[1] - 2 * abs(j)
    if rows < 8 or columns < 8:
        return image.copy()

    def part(channel: int, y: int, x: int) -> NDArray[np.uint8]:
        return image[abs(i) - y : abs(i) - y + rows, abs(j) - x : abs(j) - x + columns, channel]

    return np.stack([part(0, i, j), part(1, 0, 0), part(2, -i, -j)], axis=2)


@edit("colour")
def pca_lighting(image: Image, weights: list[float]) -> Image:
    """Add `weights` [3] × eigenvalues along the principal components of ImageNet's colours."""
    shift = 255 * LIGHTING_VECTORS @ (np.array(weights, np.float32) * LIGHTING_VALUES)
    values = np.arange(256, dtype=np.float32)[:, None] + shift
    return as_uint8(cv2.LUT(image, np.clip(values.round(), 0, 255).astype(np.uint8)[None]))


@edit("colour")
def photo_filter(image: Image, tint: list[float], gamma: float, fade: float, vignette: float) -> Image:
    """Imitate a photo app's filter: a factor per channel (`tint` [3]), gamma, `fade`d blacks (0…1), `vignette` (0…1)."""
    curve = np.arange(256, dtype=np.float32)[:, None] / 255
    table = (fade + (1 - fade) * curve**gamma * np.array(tint, np.float32)) * 255
    filtered = cv2.LUT(image, np.clip(table, 0, 255).astype(np.uint8)[None])
    if vignette > 0:
        height, width = image.shape[:2]
        y, x = np.linspace(-1, 1, height, dtype=np.float32)[:, None], np.linspace(-1, 1, width, dtype=np.float32)
        shade = 1 - vignette * np.clip((x * x + y * y) / 2, 0, 1)
        filtered = (filtered * shade[..., None]).astype(np.uint8)
    return as_uint8(filtered)
