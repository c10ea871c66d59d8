"""Edits that cut the image into parts and put them together otherwise."""

from itertools import pairwise

import cv2
import numpy as np

from image_copies.augmentations.edits.registry import Image, edit
from image_copies.data.pixels import as_uint8


@edit("tiles")
def shuffle_tiles(image: Image, rows: int, columns: int, share: float, seed: int) -> Image:
    """Cut into `rows` × `columns` tiles and exchange a `share` of them, drawn from `seed`."""
    tall, wide, rng = image.shape[0] // rows, image.shape[1] // columns, np.random.default_rng(seed)
    result = image.copy()
    moved = rng.permutation(rows * columns)[: max(2, round(share * rows * columns))]
    for place, origin in zip(moved.tolist(), np.roll(moved, 1).tolist(), strict=True):
        (y, x), (top, left) = divmod(place, columns), divmod(origin, columns)
        result[y * tall : (y + 1) * tall, x * wide : (x + 1) * wide] = image[
            top * tall : (top + 1) * tall, left * wide : (left + 1) * wide
        ]
    return result


@edit("tiles")
def space_tiles(image: Image, rows: int, columns: int, gap: float, colour: list[int]) -> Image:
    """Cut into `rows` × `columns` tiles and move them apart by a `gap` of the short side, on a `colour`."""
    tall, wide, space = image.shape[0] // rows, image.shape[1] // columns, round(gap * min(image.shape[:2]))
    result = np.full((rows * (tall + space) + space, columns * (wide + space) + space, 3), colour, np.uint8)
    for row in range(rows):
        for column in range(columns):
            tile = image[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
            top, left = space + row * (tall + space), space + column * (wide + space)
            result[top : top + tall, left : left + wide] = tile
    return result


@edit("tiles")
def mirror_part(image: Image, share: float, upright: bool, first: bool) -> Image:
    """Replace a `share`, up to 0.5, at one side by the mirror image of what is next to it."""
    turned = image.swapaxes(0, 1) if upright else image
    turned = (turned if first else turned[:, ::-1]).copy()
    width = max(1, round(share * turned.shape[1]))
    turned[:, :width] = turned[:, width : 2 * width][:, ::-1]
    turned = turned if first else turned[:, ::-1]
    return np.ascontiguousarray(turned.swapaxes(0, 1) if upright else turned)


@edit("tiles")
def repeat(image: Image, rows: int, columns: int, mirrored: bool) -> Image:
    """Show the image `rows` × `columns` times, every second one `mirrored`."""
    height, width = image.shape[:2]
    size = max(8, round(width / max(rows, columns) * 1.5)), max(8, round(height / max(rows, columns) * 1.5))
    small = as_uint8(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    pair = [small, as_uint8(cv2.flip(small, 1)) if mirrored else small]
    return np.concatenate([np.concatenate([pair[(r + c) % 2] for c in range(columns)], axis=1) for r in range(rows)])


@edit("tiles")
def shift_strips(image: Image, count: int, share: float, upright: bool) -> Image:
    """Cut into `count` strips and push every second one by a `share` of its length, round to the other end."""
    turned = image if upright else image.swapaxes(0, 1)
    result = turned.copy()
    edges = np.linspace(0, turned.shape[1], count + 1).astype(int)
    for start, end in list(pairwise(edges))[1::2]:
        result[:, start:end] = np.roll(turned[:, start:end], round(share * turned.shape[0]), axis=0)
    return np.ascontiguousarray(result if upright else result.swapaxes(0, 1))
