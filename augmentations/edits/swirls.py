"""Edits that bend the image in the plane."""

import numpy as np

from image_copies.augmentations.edits.fields import displace, pixel_grid, smooth_noise, unit_grid
from image_copies.augmentations.edits.registry import Image, edit


@edit("swirl")
def swirl(image: Image, degrees: float, x: float, y: float) -> Image:
    """Turn the image by `degrees` at (x, y), −1…1, and by less and less outwards."""
    down, right = (axis - centre for axis, centre in zip(unit_grid(image), (y, x), strict=True))
    turn = np.deg2rad(degrees) * np.exp(-2 * (down * down + right * right))
    sine, cosine = np.sin(turn), np.cos(turn)
    places = right * cosine - down * sine + x, right * sine + down * cosine + y
    height, width = image.shape[:2]
    return displace(image, (places[0] + 1) / 2 * (width - 1), (places[1] + 1) / 2 * (height - 1))


@edit("swirl")
def ripple(image: Image, amplitude: float, rings: float) -> Image:
    """Let `rings` waves run outwards from the middle, as on water; `amplitude` is a share of the short side."""
    (down, right), (y, x) = unit_grid(image), pixel_grid(image)
    away = np.hypot(down, right) + 1e-6
    push = amplitude * min(image.shape[:2]) * np.sin(2 * np.pi * rings * away) / away
    return displace(image, x + push * right, y + push * down)


@edit("swirl")
def crumple(image: Image, reach: float, cells: int, seed: int) -> Image:
    """Move every pixel by about `reach` of the short side, smoothly: by random fields of `cells` hills per side."""
    rng, (y, x), length = np.random.default_rng(seed), pixel_grid(image), reach * min(image.shape[:2])
    return displace(image, x + length * smooth_noise(image, cells, rng), y + length * smooth_noise(image, cells, rng))
