"""Edits that look like weather and light."""

import cv2
import numpy as np

from image_copies.augmentations.edits.fields import blend_in, smooth_noise, unit_grid
from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("weather")
def rain(image: Image, drops: int, length: float, degrees: float, strength: float, seed: int) -> Image:
    """Draw `drops` light streaks, `length` of the short side long, at `degrees` from upright, and dull the image."""
    height, width = image.shape[:2]
    cover, short = np.zeros((height, width), np.uint8), min(height, width)
    lean = np.array([np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))]) * length * short
    starts = np.random.default_rng(seed).random((drops, 2)) * (width, height)
    streaks = np.stack([starts, starts + lean], axis=1).astype(np.int32)
    cv2.polylines(cover, list(streaks), False, 255, max(1, short // 150), cv2.LINE_AA)
    dull = as_uint8(cv2.convertScaleAbs(image, alpha=1 - 0.4 * strength, beta=40 * strength))
    return blend_in(dull, [225, 230, 240], cover.astype(np.float32) * np.float32(strength / 255))


@edit("weather")
def snow(image: Image, flakes: int, size: float, strength: float, seed: int) -> Image:
    """Let `flakes` fall, up to `size` of the short side wide, and brighten the image."""
    height, width = image.shape[:2]
    cover = np.zeros((height, width), np.uint8)
    for y, x, wide in np.random.default_rng(seed).random((flakes, 3)):
        radius = max(1, round(size * min(height, width) * (0.3 + 0.7 * wide) / 2))
        cv2.circle(cover, (int(x * width), int(y * height)), radius, 255, -1, cv2.LINE_AA)
    soft = cv2.GaussianBlur(cover, (0, 0), 0.8)
    bright = as_uint8(cv2.convertScaleAbs(image, alpha=1 - 0.3 * strength, beta=75 * strength))
    return blend_in(bright, [255, 255, 255], soft.astype(np.float32) / np.float32(255))


@edit("weather")
def fog(image: Image, density: float, cells: int, seed: int) -> Image:
    """Hide the image behind light fog of `density` 0…1 with `cells` clouds per side, drawn from `seed`."""
    clouds = smooth_noise(image, cells, np.random.default_rng(seed))
    return blend_in(image, [215, 218, 222], np.clip(density * (1 + 0.5 * clouds), 0, 1))


@edit("weather")
def shadow(image: Image, x: float, degrees: float, width: float, darkness: float) -> Image:
    """Darken a soft band through (x, 0), `width` wide, both in units of half a side, at `degrees`, as window bars do."""
    (down, right), turn = unit_grid(image), np.deg2rad(degrees)
    away = np.abs((right - x) * np.cos(turn) + down * np.sin(turn))
    return blend_in(image, [0, 0, 0], darkness * np.clip((width - away) * 8 + 0.5, 0, 1))


@edit("weather")
def glow(image: Image, x: float, y: float, reach: float, colour: list[int], strength: float) -> Image:
    """Let light of a `colour` leak in around (x, y), `reach` wide, all in units of half a side."""
    down, right = unit_grid(image)
    light = np.exp(-((down - y) ** 2 + (right - x) ** 2) / reach**2)
    lit: Image = np.clip(image + strength * light[..., None] * np.array(colour, np.float32), 0, 255).astype(np.uint8)
    return lit


@edit("weather")
def vignette(image: Image, x: float, y: float, reach: float, stretch: float, power: float, darkness: float) -> Image:
    """Darken smoothly away from (x, y), by `darkness` 0…1 from `reach` on: an ellipse `stretch` times as wide as high.

    Places and lengths are in units of half a side; `power` is how late the shade sets in.
    """
    down, right = unit_grid(image)
    away = np.hypot((right - x) / stretch, (down - y) * stretch) / reach
    return blend_in(image, [0, 0, 0], darkness * np.clip(away, 0, 1) ** power)
