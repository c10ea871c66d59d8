"""Edits that look like documents, and like prints that were photographed or copied."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import blend_in, coloured, grey_of, mix, smooth_noise, unit_grid
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("paper")
def in_document(image: Image, size: float, x: float, y: float, lines: int, seed: int) -> Image:
    """Put the image on a page of `lines` of writing, `size` of its width wide; (x, y) go from top left to bottom right."""
    height, width = image.shape[:2]
    wide, tall = round(width / size), round(max(width, height) / size * 1.2)
    page, rng = np.full((tall, wide, 3), 250, np.uint8), np.random.default_rng(seed)
    step, margin = tall / (lines + 1), wide // 16
    for line in range(lines):
        top = int((line + 0.7) * step)
        for start in range(margin, int(wide - margin - rng.random() * wide * 0.3), max(4, wide // 12)):
            page[top : top + max(1, int(step / 3)), start : start + int(wide / 12 * rng.uniform(0.4, 0.9))] = 70
    top, left = round(y * (tall - height)), round(x * (wide - width))
    page[max(0, top - margin // 2) : top + height + margin // 2, max(0, left - margin // 2) : left + width + margin // 2] = 250
    page[top : top + height, left : left + width] = image
    return page


@edit("paper")
def photocopy(image: Image, contrast: float, specks: float, strength: float, seed: int) -> Image:
    """Mix with a photocopy: grey, a `contrast`, black and white `specks` as a share of the pixels."""
    noise = np.random.default_rng(seed).random(image.shape[:2], np.float32)
    copied = np.clip((grey_of(image) - np.float32(150)) * contrast + 170, 0, 255)
    copied[noise < specks / 2], copied[noise > 1 - specks / 2] = 0, 255
    return mix(image, coloured(copied.astype(np.uint8)), strength)


@edit("paper")
def creases(image: Image, folds: int, strength: float, seed: int) -> Image:
    """Fold the print `folds` times: light lines, each side of which is shaded otherwise."""
    y, x = unit_grid(image)
    shade, lines = np.ones(image.shape[:2], np.float32), np.zeros(image.shape[:2], np.float32)
    for turn, offset, depth in np.random.default_rng(seed).uniform(-1, 1, (folds, 3)):
        away = x * np.cos(np.pi * turn) + y * np.sin(np.pi * turn) - 0.8 * offset
        shade *= 1 + strength * 0.45 * depth * np.tanh(6 * away) * np.exp(-np.abs(away))
        lines = np.maximum(lines, np.clip(1 - np.abs(away) * min(image.shape[:2]) / 3, 0, 1))
    shaded = np.clip(image * shade[..., None], 0, 255).astype(np.uint8)
    return blend_in(shaded, [245, 243, 238], strength * lines)


@edit("paper")
def stains(image: Image, share: float, colour: list[int], strength: float, seed: int) -> Image:
    """Spill something of a `colour` over about `share` of the image, darker at its rim."""
    spread = smooth_noise(image, 4, np.random.default_rng(seed))
    level = np.quantile(spread[::4, ::4], 1 - share)
    inside = np.clip((spread - level) * 12, 0, 1)
    rim = np.clip(1 - np.abs(spread - level) * 8, 0, 1)
    return blend_in(image, colour, strength * np.clip(0.7 * inside + 0.3 * rim, 0, 1))


@edit("paper")
def photographed_print(image: Image, yellow: float, shade: float, fibre: float, shifts: list[list[float]], seed: int) -> Image:
    """Photograph a print: pale `yellow`ish paper with `fibre`, `shade`d to one side, corners moved by `shifts` [4, 2]."""
    height, width = image.shape[:2]
    rng, (y, x) = np.random.default_rng(seed), unit_grid(image)
    paper = np.array([250, 246 - 20 * yellow, 238 - 70 * yellow], np.float32)
    light = 1 - shade * (0.5 + 0.5 * (x * np.sign(shifts[0][0]) + y) / 2) + fibre * smooth_noise(image, 40, rng)
    inked = (25 + image * np.float32(0.86)) / 255 * paper * light[..., None]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners, (corners + np.array(shifts) * (width, height)).astype(np.float32))
    table = [int(value) for value in 60 + 120 * rng.random(3)]
    flat = np.clip(inked, 0, 255).astype(np.uint8)
    return as_uint8(cv2.warpPerspective(flat, matrix, (width, height), borderValue=table))
