"""Edits that cut the image's outline or frame it richly."""

import numpy as np

from image_copies.augmentations.edits.fields import blend_in, pixel_grid, smooth_noise, unit_grid
from image_copies.augmentations.edits.registry import Image, edit


@edit("cutout")
def cut_round(image: Image, power: float, size: float, colour: list[int]) -> Image:
    """Keep an ellipse (`power` 2) or a rectangle with round corners (more) of `size` of the image, on a `colour`."""
    y, x = unit_grid(image)
    away = (np.abs(y / size) ** power + np.abs(x / size) ** power) ** (1 / power)
    return blend_in(image, colour, np.clip((away - 1) * min(image.shape[:2]) * size / 2 + 0.5, 0, 1))


@edit("cutout")
def tear_edges(image: Image, width: float, colour: list[int], seed: int) -> Image:
    """Tear the edges off, about `width` of the short side, along a rough line drawn from `seed`."""
    (y, x), (height, wide), rng = pixel_grid(image), image.shape[:2], np.random.default_rng(seed)
    inwards = np.minimum(np.minimum(y, height - 1 - y), np.minimum(x, wide - 1 - x)) / min(height, wide)
    rough = 1 + 0.5 * smooth_noise(image, 6, rng) + 0.35 * smooth_noise(image, 24, rng)
    return blend_in(image, colour, (inwards < width * rough).astype(np.float32))


@edit("cutout")
def film_strip(image: Image, width: float, holes: int, upright: bool) -> Image:
    """Put the image on film: black margins, `width` of the short side wide, with a row of `holes` white holes on either side."""
    turned = image.swapaxes(0, 1) if upright else image
    margin = max(3, round(width * min(image.shape[:2])))
    edge = np.zeros((margin, turned.shape[1], 3), np.uint8)
    starts = (np.arange(holes) + 0.25) * turned.shape[1] / holes
    for start in starts:
        edge[margin // 4 : margin - margin // 4, int(start) : int(start + turned.shape[1] / holes / 2)] = 240
    film = np.concatenate([edge, turned, edge])
    return np.ascontiguousarray(film.swapaxes(0, 1) if upright else film)
