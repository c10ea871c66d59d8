"""The vectors of many files, numbered through: read in shards, or looked up by number, without being held in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.submissions.vectors.files import describe_vectors
from image_copies.submissions.vectors.rows import RowsInFile, divide_file


@dataclass(frozen=True)
class StoredFile:
    """Where the vectors of a file are.

    Attributes:
        path: The vectors file, on this machine.
        offset: Byte at which its vectors begin.
        dtype: float32 or float16.
        shape: Rows n, those of unreadable images included, and dimensions d.
        unreadable: int64 [u], the rows of images that could not be decoded, ascending; they have no number.
    """

    path: Path
    offset: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, int]
    unreadable: NDArray[np.int64]

    def __len__(self) -> int:
        return self.shape[0] - len(self.unreadable)

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return the vectors [k, d] of readable images with these numbers 0 … n − u − 1 [k]."""
        before = self.unreadable - np.arange(len(self.unreadable))  # readable images before each unreadable one
        rows = numbers + np.searchsorted(before, numbers, side="right")
        chosen: NDArray[np.generic] = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)[rows]
        return chosen


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of readable images in many files, numbered through in the order of the files; small, so that it can be sent.

    Attributes:
        files: The files.
        firsts: int64 [files + 1], number of each file's first vector, and how many there are in all.
    """

    files: Sequence[StoredFile]
    firsts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def dimensions(self) -> int:
        """Dimensions d of the vectors."""
        return self.files[0].shape[1]

    @property
    def name(self) -> str:
        """How messages refer to the files."""
        return str(self.files[0].path) + (f" and {len(self.files) - 1} more" if len(self.files) > 1 else "")

    def divide(self, size: int) -> list[RowsInFile]:
        """Divide the rows of each file, unreadable ones included, into shards of `size`; shards of these alone are left out."""
        shards = []
        for file, first in zip(self.files, self.firsts.tolist(), strict=False):
            bounds = [*range(0, file.shape[0], size), file.shape[0]]
            numbers = first + np.array(bounds) - np.searchsorted(file.unreadable, bounds)
            shards += divide_file(file.path, bounds, numbers.tolist())
        return shards

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 [n, d] with these numbers [n]."""
        vectors = np.empty((len(numbers), self.dimensions), np.float32)
        owners = np.searchsorted(self.firsts, numbers, side="right") - 1
        for owner in np.unique(owners):
            chosen = np.flatnonzero(owners == owner)
            vectors[chosen] = self.files[owner].rows(numbers[chosen] - self.firsts[owner])
        return vectors

    def sample(self, count: int, seed: int = 0) -> NDArray[np.float32]:
        """Draw at most `count` vectors [m, d] without replacement, in the order of the files; all where there are fewer."""
        numbers = np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False)
        return self.rows(np.sort(numbers))


def open_stored_vectors(paths: Sequence[Path]) -> StoredVectors:
    """Open the vectors of many files; their ids are checked and not kept.

    Raises:
        UserError: when a file is damaged, or its dimensions differ from those of the first.
    """
    files: list[StoredFile] = []
    for path in paths:
        unreadable = describe_vectors(path).unreadable
        with h5py.File(path, "r") as file:
            stored = file["vectors"]
            place, form, shape = stored.id.get_offset(), stored.dtype, stored.shape
        if place is None and shape[0]:
            raise UserError(f"{path}: its vectors are stored in pieces. Write them again with this project (step 02).")
        files.append(StoredFile(path.absolute(), int(place or 0), form, shape, np.flatnonzero(unreadable)))
        if shape[1] != files[0].shape[1]:
            raise UserError(
                f"{path} has {shape[1]} dimensions, {paths[0]} has {files[0].shape[1]}: they were not made by the same model. "
                "Embed the images of one of them again (step 02)."
            )
    return StoredVectors(tuple(files), np.cumsum([0, *map(len, files)]))
