"""Edits that look like faults of transmission and storage."""

import numpy as np

from image_copies.augmentations.edits.fields import pixel_grid, scale_length
from image_copies.augmentations.edits.registry import Image, edit


@edit("glitch")
def tear_rows(image: Image, count: int, reach: float, seed: int) -> Image:
    """Push `count` bands of rows sideways by up to `reach` of the width, each channel a little further."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for top, share, push, apart in rng.random((count, 4)):
        rows = slice(int(top * height), int(top * height + (0.02 + 0.13 * share) * height) + 1)
        for channel in range(3):
            by = round((2 * push - 1 + 0.3 * apart * channel) * reach * width)
            result[rows, :, channel] = np.roll(image[rows, :, channel], by, axis=1)
    return result


@edit("glitch")
def break_blocks(image: Image, count: int, size: float, seed: int) -> Image:
    """Replace `count` blocks, up to `size` of the sides large, by others of the image in wrong channels, or by one colour."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for _ in range(count):
        tall, wide = 2 + int(rng.random() * size * height / 2), 2 + int(rng.random() * size * width)
        (top, y), (left, x) = rng.integers(0, height - tall, 2), rng.integers(0, width - wide, 2)
        block = image[y : y + tall, x : x + wide]
        result[top : top + tall, left : left + wide] = block[:1, :1] if rng.random() < 0.3 else block[..., rng.permutation(3)]
    return result


@edit("glitch")
def scan_lines(image: Image, period: float, strength: float, shift: float) -> Image:
    """Darken every second line by `strength` and push it sideways by `shift` of the width; `period` in pixels at TUNED_SIDE."""
    y, _ = pixel_grid(image)
    odd = (y[:, 0] / scale_length(period, image, 2.0) % 1) >= 0.5
    result = image.copy()
    result[odd] = (np.roll(image[odd], round(shift * image.shape[1]), axis=1) * np.float32(1 - strength)).astype(np.uint8)
    return result
