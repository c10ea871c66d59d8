"""Views of a picture, crops and turns of it, that are searched for where the whole picture finds nothing for sure.

A copy that is part of a page, or turned, has a vector far from its original's; one of its views has a close one. Each view is one
more chance of a false alarm, so all of them together are held to the rate of one query: the distances of views count as larger by
what makes a pair of unrelated pictures as many times rarer as there are views (`Tail.penalty`).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet
from image_copies.data.loader import FileContents, resize_square
from image_copies.data.process import choose_workers
from image_copies.matching.extractor import Extractor
from image_copies.matching.verification.features import Box
from image_copies.models.device import best_device
from image_copies.models.inference.embedders import MAX_IMAGES_WITHOUT_WORKERS, list_square_sizes
from image_copies.models.inference.padding import pad_batch
from image_copies.models.inference.parallel import map_in_parallel

Pixels = NDArray[np.uint8]


def _place(share: float, x: float, y: float) -> Box:
    """Return the box of a crop whose sides are this share of the picture's, at x and y from 0, the start, to 1, the end."""
    return x * (1 - share), y * (1 - share), x * (1 - share) + share, y * (1 - share) + share


CROPS: tuple[Box, ...] = (
    *(_place(0.6, x, y) for x in (0, 1) for y in (0, 1)),
    *(_place(share, 0.5, 0.5) for share in (0.35, 0.45, 0.6, 0.8)),
    *((0, top, 1, top + 0.5) for top in (0, 0.25, 0.5)),
    *((left, 0, left + 0.5, 1) for left in (0, 0.25, 0.5)),
)
TURNS = (1, 2, 3)  # quarters
VIEWS = len(CROPS) + len(TURNS)
SMALLEST = min(min(right - left, bottom - top) for left, top, right, bottom in CROPS)


def make_views(pixels: Pixels) -> list[Pixels]:
    """Return the crops and the turns of a picture [h, w, 3]."""
    height, width = pixels.shape[:2]
    crops = [
        pixels[
            (above := min(int(top * height), height - 1)) : max(above + 1, round(bottom * height)),
            (before := min(int(left * width), width - 1)) : max(before + 1, round(right * width)),
        ]
        for left, top, right, bottom in CROPS
    ]
    return [np.ascontiguousarray(view) for view in (*crops, *(np.rot90(pixels, turn) for turn in TURNS))]


def embed_views(extractor: Extractor, images: ImageSet) -> list[NDArray[np.float32] | None]:
    """Return the vectors [VIEWS, d] of the views of each file; None for one that cannot be read."""
    settings, sizes, device = extractor.settings, list_square_sizes(extractor.networks), best_device()
    workers = choose_workers(settings.workers) if len(images) > MAX_IMAGES_WITHOUT_WORKERS else 0
    loader = DataLoader(ViewSquares(images, sizes), max(1, settings.batch_size // VIEWS), num_workers=workers)

    def embed(batch: tuple[dict[int, Tensor], Tensor]) -> list[NDArray[np.float32] | None]:
        squares, readable = batch
        whole = {size: pad_batch(views.flatten(0, 1), settings.batch_size, device) for size, views in squares.items()}
        vectors = _embed(extractor, whole)[: len(readable) * VIEWS].reshape(len(readable), VIEWS, -1)
        return [own if can_be_read else None for own, can_be_read in zip(vectors, readable.tolist(), strict=True)]

    found: list[NDArray[np.float32] | None] = []
    with tqdm(total=len(images), desc="searching with views", unit="image", leave=False) as bar:
        for batch in map_in_parallel(embed, loader, device):
            found += batch
            bar.update(len(batch))
    return found


def embed_views_of(extractor: Extractor, pixels: Pixels) -> NDArray[np.float32]:
    """Return the vectors [VIEWS, d] of the views of a picture [h, w, 3]."""
    return _embed(extractor, _make_squares(pixels, list_square_sizes(extractor.networks)))


def smallest_side(extractor: Extractor) -> int:
    """Return the short side in pixels from which a picture's views show all that the networks see."""
    return round(max(list_square_sizes(extractor.networks)) / SMALLEST)


class ViewSquares(FileContents[tuple[dict[int, Tensor], bool]]):
    """The views of pictures as squares: item i is (by size, uint8 [VIEWS, 3, size, size]; whether the picture could be read)."""

    def load(self, content: bytes) -> tuple[dict[int, Tensor], bool]:
        """Return the squares of a file's views, zeros where it cannot be read, and whether it could be."""
        try:
            pixels = decode_rgb(content, short_side=round(max(self.sizes) / SMALLEST))
        except ImageError:
            return {size: torch.zeros(VIEWS, 3, size, size, dtype=torch.uint8) for size in self.sizes}, False
        return _make_squares(pixels, self.sizes), True


def _make_squares(pixels: Pixels, sizes: list[int]) -> dict[int, Tensor]:
    views = make_views(pixels)
    return {size: torch.from_numpy(np.stack([resize_square(view, size) for view in views])).permute(0, 3, 1, 2) for size in sizes}


def _embed(extractor: Extractor, squares: dict[int, Tensor]) -> NDArray[np.float32]:
    return extractor.project(np.concatenate([network.embed(squares) for network in extractor.networks], axis=1))
