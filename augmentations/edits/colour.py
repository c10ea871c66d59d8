"""Edits that change colours and tones. Images are RGB uint8 [h, w, 3] and never changed in place."""

import cv2
import numpy as np

from image_copies.data.arrays import UInt8s
from image_copies.data.decode import as_uint8

from .registry import Image, coloured, edit, grey_of, mix


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
    values = np.arange(256, dtype=np.uint8)[:, None] ^ np.array(
        [255 * red, 255 * green, 255 * blue], np.uint8
    )
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
    rows = image.shape[0] - 2 * abs(i)
    columns = image.shape[1] - 2 * abs(j)
    if rows < 8 or columns < 8:
        return image.copy()

    def part(channel: int, y: int, x: int) -> UInt8s:
        return image[abs(i) - y : abs(i) - y + rows, abs(j) - x : abs(j) - x + columns, channel]

    return np.stack([part(0, i, j), part(1, 0, 0), part(2, -i, -j)], axis=2)


@edit("colour")
def photo_filter(image: Image, tint: list[float], gamma: float, fade: float, vignette: float) -> Image:
    """Imitate a photo app's filter: a factor per channel (`tint` [3]), gamma, `fade`d blacks (0…1), `vignette` (0…1)."""
    curve = np.arange(256, dtype=np.float32)[:, None] / 255
    table = (fade + (1 - fade) * curve**gamma * np.array(tint, np.float32)) * 255
    filtered = cv2.LUT(image, np.clip(table, 0, 255).astype(np.uint8)[None])
    if vignette > 0:
        height, width = image.shape[:2]
        y, x = (
            np.linspace(-1, 1, height, dtype=np.float32)[:, None],
            np.linspace(-1, 1, width, dtype=np.float32),
        )
        shade = 1 - vignette * np.clip((x * x + y * y) / 2, 0, 1)
        filtered = (filtered * shade[..., None]).astype(np.uint8)
    return as_uint8(filtered)


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
    return mix(
        image, as_uint8(cv2.merge([spread.apply(channel) for channel in cv2.split(image)])), strength
    )


@edit("tone")
def expose(image: Image, stops: float) -> Image:
    """Multiply the values by 2 to the power of `stops`; what becomes brighter than white is lost, as in a camera."""
    return as_uint8(cv2.convertScaleAbs(image, alpha=2**stops))


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
