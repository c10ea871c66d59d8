"""A data set of unedited images, and resizing."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.data.archives import read_bytes
from image_copies.data.decode import MAX_FILE_BYTES, decode_rgb
from image_copies.data.errors import ImageError, StorageError, UserError
from image_copies.data.images import ImageSet
from image_copies.data.pixels import as_uint8
from image_copies.data.remote import is_remote, map_files

Item = TypeVar("Item")
LONGEST_ASPECT = 2.25  # the short side is then the square's side / 1.5, which is what training shows of it: no detail is lost


class CleanImages(Dataset[tuple[Tensor, bool]]):
    """Unedited images resized to squares.

    Item i is (RGB uint8 [3, size, size], whether the image could be read); an unreadable image is all zero. Pixels stay uint8,
    a quarter of the traffic between processes; `augmentations.dataset.normalize_pixels` converts them on the network's device.
    Images on an object store are read several at a time, because each answer takes a while, and decoded one after the other.
    """

    def __init__(self, images: ImageSet, size: int) -> None:
        self.images, self.size = images, size

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, bool]:
        return _load_square(self.images.paths[index], self.size)

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, bool]]:
        """Return several items; torch's loader asks for those of a batch at once."""
        paths = [self.images.paths[index] for index in indices]
        if not any(map(is_remote, paths)):
            return [_load_square(path, self.size) for path in paths]
        return [_load_square(content, self.size) for content in map_files(read_or_nothing, paths)]


class FileContents(Dataset[Item], ABC):
    """Images of which each file is read once, for squares of several sizes; the files of a batch are read together."""

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
        """Return the item of a file's content, which is empty where the file cannot be read."""


class SquaresOfSizes(FileContents[dict[int, tuple[Tensor, bool]]]):
    """Unedited images resized to squares of several sizes: by size, the items of CleanImages, bit for bit.

    A file is read once, and decoded once for all sizes for which the decoder gives the same scale: those of a JPEG that its
    reduced scales do not tell apart, and all of any other format.
    """

    def load(self, content: bytes) -> dict[int, tuple[Tensor, bool]]:
        """Return the squares by size, and whether each could be read."""
        return load_squares(content, self.sizes)


def load_squares(content: bytes, sizes: Iterable[int]) -> dict[int, tuple[Tensor, bool]]:
    """Decode an encoded image to uint8 [3, size, size] of each size; with False, zeros where it cannot be read."""
    decoded: dict[tuple[int, int], NDArray[np.uint8]] = {}
    return {size: _load_square(content, size, decoded) for size in sizes}


def _load_square(
    source: Path | bytes, size: int, decoded: dict[tuple[int, int], NDArray[np.uint8]] | None = None
) -> tuple[Tensor, bool]:
    """Decode and resize to uint8 [3, size, size]; with False, zeros where the image cannot be read."""
    try:
        pixels = decode_rgb(source, size, decoded)
    except ImageError:
        return torch.zeros(3, size, size, dtype=torch.uint8), False
    return torch.from_numpy(resize_square(pixels, size)).permute(2, 0, 1), True


def read_or_nothing(path: Path) -> bytes:
    """Return a file's bytes; none of a file that cannot be read, which is then as unreadable as an empty one."""
    try:
        return read_bytes(path, MAX_FILE_BYTES + 1)
    except StorageError:
        raise
    except (OSError, UserError):
        return b""


def resize_square(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize [h, w, 3] to [size, size, 3] ignoring the aspect ratio, as the authors' code does.

    Area interpolation if the short side shrinks, bilinear otherwise.
    """
    shrinks = min(pixels.shape[:2]) > size
    return as_uint8(cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR))


def resize_own_aspect(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Resize [h, w, 3] to at most the area of a square of `size` pixels, keeping the aspect ratio up to `LONGEST_ASPECT`.

    A longer image is squashed to `LONGEST_ASPECT`. Interpolation as in `resize_square`.
    """
    aspect = min(max(pixels.shape[1] / pixels.shape[0], 1 / LONGEST_ASPECT), LONGEST_ASPECT)
    width, height = int(size * aspect**0.5), int(size / aspect**0.5)
    shrinks = min(pixels.shape[:2]) > min(width, height)
    return as_uint8(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR))


def shrink(pixels: NDArray[np.uint8], long_side: int) -> NDArray[np.uint8]:
    """Downscale an image [h, w, 3] to a long side of `long_side` pixels, keeping the aspect ratio; never enlarge it."""
    factor = long_side / max(pixels.shape[:2])
    if factor >= 1:
        return pixels
    size = max(8, round(pixels.shape[1] * factor)), max(8, round(pixels.shape[0] * factor))
    return as_uint8(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
