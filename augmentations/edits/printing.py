"""Edits that print the image in few inks or in separate dots."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import blend_in, mix, pixel_grid, scale_length
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8

BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.float32) / 16 - 15 / 32


@edit("printing")
def dither(image: Image, levels: int, cell: float, strength: float) -> Image:
    """Mix with `levels` values a channel, in an ordered pattern of dots of `cell` pixels at TUNED_SIDE."""
    size, step = round(scale_length(cell, image)), 255 / (levels - 1)
    y, x = (axis.astype(np.int64) // size % 4 for axis in pixel_grid(image))
    printed = np.clip(np.rint(image / np.float32(step) + BAYER[y, x][..., None]) * step, 0, 255)
    return mix(image, printed.astype(np.uint8), strength)


@edit("printing")
def spots(image: Image, period: float, size: float, colour: list[int]) -> Image:
    """Show the image as round spots of one colour each, `size` of their `period` (pixels at TUNED_SIDE) wide, on a `colour`."""
    height, width = image.shape[:2]
    step = scale_length(period, image, 2.0)
    cells = max(2, round(width / step)), max(2, round(height / step))
    flat = cv2.resize(cv2.resize(image, cells, interpolation=cv2.INTER_AREA), (width, height), interpolation=cv2.INTER_NEAREST)
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
