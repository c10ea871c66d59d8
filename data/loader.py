"""Data sets of unedited images for torch's loaders."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.data.images import ImageSet
from image_copies.data.remote import map_files
from image_copies.data.squares import decode_squares, read_or_nothing

Item = TypeVar("Item")


class FileContents(Dataset[Item], ABC):
    """Images of which each file is read once, for squares of several sizes; the files of a batch are read together.

    Those on an object store are read several at a time, because each answer takes a while, and decoded one after the other.
    """

    def __init__(self, images: ImageSet, sizes: Collection[int]) -> None:
        self.images, self.sizes = images, sorted(set(sizes))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        return self.load(read_or_nothing(self.images.paths[index]))

    def __getitems__(self, indices: list[int]) -> list[Item]:
        """Return several items; torch's loader asks for those of a batch at once."""
        paths = [self.images.paths[index] for index in indices]
        return [self.load(content) for content in map_files(read_or_nothing, paths)]

    @abstractmethod
    def load(self, content: bytes) -> Item:
        """Return the item made of a file's content; the content is empty if the file cannot be read."""


class SquaresOfSizes(FileContents[dict[int, tuple[Tensor, bool]]]):
    """Unedited images resized to squares of several sizes: by size, the items of PreprocessedImages, bit for bit.

    A file is read once, and decoded once for all sizes for which the decoder gives the same scale: those of a JPEG that its
    reduced scales do not tell apart, and all of any other format.
    """

    def load(self, content: bytes) -> dict[int, tuple[Tensor, bool]]:
        """Return the squares by size, and whether each could be read."""
        squares = decode_squares(content, self.sizes)
        return {size: (torch.from_numpy(square), readable) for size, (square, readable) in squares.items()}
