"""Edits that draw, engrave, paint or print the image, as the filters of photo apps do."""

import cv2
import numpy as np

from image_copies.data.decode import as_uint8

from .registry import TUNED_SIDE, Image, blend_in, coloured, edit, grey_of, mix, pixel_grid, scale_length


@edit("drawing")
def relief(image: Image, degrees: float, depth: float, strength: float) -> Image:
    """Emboss: slopes that face the light from `degrees` are bright, the others dark, `depth` times as steep."""
    grey = grey_of(image).astype(np.float32)
    turn = np.deg2rad(degrees)
    slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0) * np.cos(turn) + cv2.Sobel(grey, cv2.CV_32F, 0, 1) * np.sin(
        turn
    )
    return mix(image, coloured(np.clip(128 + depth * slope, 0, 255).astype(np.uint8)), strength)


@edit("drawing")
def outline(image: Image, radius: float, gain: float, dark: bool, strength: float) -> Image:
    """Draw the outlines: steep places of the image blurred by `radius`, light on black or, with `dark`, black on white."""
    smooth = cv2.GaussianBlur(grey_of(image), (0, 0), scale_length(radius, image, 0.4)).astype(np.float32)
    steep = cv2.magnitude(cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1))
    lines = cv2.convertScaleAbs(steep, alpha=gain)
    return mix(image, coloured(as_uint8(255 - lines if dark else lines)), strength)


@edit("drawing")
def ink(image: Image, radius: float, level: float, strength: float) -> Image:
    """Draw in black ink: dark places and the dark side of edges (extended difference of Gaussians)."""
    grey = grey_of(image).astype(np.float32)
    fine = scale_length(radius, image, 0.5)
    near = cv2.GaussianBlur(grey, (0, 0), fine)
    far = cv2.GaussianBlur(grey, (0, 0), 1.6 * fine)
    drawn = np.clip(255 + 12 * (near + 8 * (near - far) - level * float(grey.mean())), 0, 255)
    return mix(image, coloured(drawn.astype(np.uint8)), strength)


@edit("drawing")
def engrave(image: Image, period: float, degrees: float, strength: float) -> Image:
    """Draw in parallel lines at `degrees`, wider where the image is darker, as on banknotes."""
    y, x = pixel_grid(image)
    turn = np.deg2rad(degrees)
    frequency = 2 * np.pi / scale_length(period, image, 3.0)
    wave = 127.5 + 110 * np.cos((x * np.cos(turn) + y * np.sin(turn)) * frequency)
    lines = np.clip(127.5 + 3 * (grey_of(image) - wave), 0, 255).astype(np.uint8)
    return mix(image, coloured(lines), strength)


@edit("drawing")
def paint(image: Image, radius: float, levels: int) -> Image:
    """Paint in patches of `levels` tones a channel whose outlines are rounded with `radius`, as with oil colours."""
    side = 2 * round(scale_length(radius, image)) + 1
    step = 255 / (levels - 1)
    flat = (np.rint(np.arange(256) / step) * step).round().astype(np.uint8)
    return as_uint8(cv2.medianBlur(cv2.LUT(cv2.medianBlur(image, side), flat), side))


@edit("art")
def solarize(image: Image, threshold: int) -> Image:
    """Invert the values from `threshold` 0…256 on."""
    return np.where(image < threshold, image, 255 - image)


@edit("art")
def halftone(image: Image, period: float, degrees: float, strength: float) -> Image:
    """Print in dots on a grid turned by `degrees`; `period` in pixels at TUNED_SIDE, strength 1 leaves nothing but dots."""
    height, width = image.shape[:2]
    y = np.arange(height, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)
    turn = np.deg2rad(degrees)
    frequency = 2 * np.pi / max(3.0, period * min(height, width) / TUNED_SIDE)
    across = np.cos((x * np.cos(turn) + y * np.sin(turn)) * frequency) * np.cos(
        (y * np.cos(turn) - x * np.sin(turn)) * frequency
    )
    dots = np.clip(127.5 + 4 * (image - (127.5 - 110 * across)[..., None]), 0, 255)
    mixed: Image = np.rint((1 - strength) * image + strength * dots).astype(np.uint8)
    return mixed


@edit("art")
def sketch(image: Image, radius: float, strength: float) -> Image:
    """Draw the edges as with a pencil (grey over its blurred negative); `radius` in pixels at TUNED_SIDE, strength 0…1."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    soft = cv2.GaussianBlur(255 - grey, (0, 0), max(0.5, radius * min(grey.shape) / TUNED_SIDE))
    drawn = cv2.divide(grey, np.maximum(255 - soft, 1), scale=256)
    return as_uint8(
        cv2.addWeighted(image, 1 - strength, cv2.cvtColor(drawn, cv2.COLOR_GRAY2RGB), strength, 0)
    )


BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.float32) / 16 - 15 / 32


@edit("printing")
def dither(image: Image, levels: int, cell: float, strength: float) -> Image:
    """Mix with `levels` values a channel, in an ordered pattern of dots of `cell` pixels at TUNED_SIDE."""
    size = round(scale_length(cell, image))
    step = 255 / (levels - 1)
    y, x = (axis.astype(np.int64) // size % 4 for axis in pixel_grid(image))
    printed = np.clip(np.rint(image / np.float32(step) + BAYER[y, x][..., None]) * step, 0, 255)
    return mix(image, printed.astype(np.uint8), strength)


@edit("printing")
def spots(image: Image, period: float, size: float, colour: list[int]) -> Image:
    """Show the image as round spots of one colour each, `size` of their `period` (pixels at TUNED_SIDE) wide, on a `colour`."""
    height, width = image.shape[:2]
    step = scale_length(period, image, 2.0)
    cells = max(2, round(width / step)), max(2, round(height / step))
    flat = cv2.resize(
        cv2.resize(image, cells, interpolation=cv2.INTER_AREA),
        (width, height),
        interpolation=cv2.INTER_NEAREST,
    )
    y, x = pixel_grid(image)
    away = np.hypot((y + 0.5) * cells[1] / height % 1 - 0.5, (x + 0.5) * cells[0] / width % 1 - 0.5)
    return blend_in(as_uint8(flat), colour, np.clip((away - size / 2) * step + 0.5, 0, 1))


@edit("printing")
def crystals(image: Image, count: int, rim: float, colour: list[int], seed: int) -> Image:
    """Break the image into `count` cells around points drawn from `seed`, each of one colour, with a `rim` 0…1 of a `colour`."""
    height, width = image.shape[:2]
    points = np.random.default_rng(seed).random((count, 2)) * (height, width)
    y, x = points.astype(np.int64).T
    apart = np.full((height, width), 255, np.uint8)
    apart[y, x] = 0
    _, cell = cv2.distanceTransformWithLabels(apart, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    owner = np.empty(cell.max() + 1, np.int64)
    owner[cell[y, x]] = np.arange(count)
    soft = cv2.blur(image, (2 * round((height * width / count) ** 0.5 / 4) + 1,) * 2)
    flat = soft[y, x][owner[cell]]
    edges = cv2.morphologyEx(cell.astype(np.float32), cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    return blend_in(flat, colour, rim * edges.astype(np.float32))
