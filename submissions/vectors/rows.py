"""Rows of vectors to search in, in memory or in a file, divided into shards that other processes can load."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.vectors.files import iterate_vectors

ROWS_PER_BLOCK = 16_384


class RowsShard(Protocol):
    """Consecutive rows of something."""

    @property
    def first(self) -> int:
        """Number of the first row."""

    def __len__(self) -> int: ...

    def load(self) -> NDArray[np.float32]:
        """Return the rows [n, d]."""


@dataclass(frozen=True)
class RowsInMemory:
    """Rows that travel with the shard."""

    first: int
    vectors: NDArray[np.float32]  # [n, d]

    def __len__(self) -> int:
        return len(self.vectors)

    def load(self) -> NDArray[np.float32]:
        """Return the rows [n, d]."""
        return self.vectors


@dataclass(frozen=True)
class RowsInFile:
    """Rows of readable images that are read from a vectors file."""

    first: int  # among readable images
    path: Path
    start: int  # first row of the file
    unreadable: NDArray[np.bool_]  # [m], the flags of the file's m rows from there on

    def __len__(self) -> int:
        return int(np.count_nonzero(~self.unreadable))

    def load(self) -> NDArray[np.float32]:
        """Return the rows [n, d].

        Raises:
            UserError: when the file is missing or damaged.
        """
        size = len(self.unreadable)
        (rows,) = iterate_vectors(self.path, size, first=self.start, last=self.start + size)
        return rows[~self.unreadable]


@dataclass(frozen=True)
class FileRows:
    """The vectors of a file's readable images, which need not fit into memory."""

    path: Path
    unreadable: NDArray[np.bool_]  # [m], the flags of all rows of the file

    def __len__(self) -> int:
        return int(np.count_nonzero(~self.unreadable))

    def divide(self, size: int) -> list[RowsInFile]:
        """Divide the rows of the file, unreadable ones included, into shards of `size`; shards of these alone are left out."""
        starts = range(0, len(self.unreadable), size)
        firsts = np.concatenate([[0], np.cumsum(~self.unreadable)])[list(starts)].tolist()
        shards = (
            RowsInFile(first, self.path.absolute(), start, self.unreadable[start : start + size])
            for first, start in zip(firsts, starts, strict=True)
        )
        return [shard for shard in shards if len(shard)]


class DividedRows(Protocol):
    """Rows in files, which are divided into shards."""

    def __len__(self) -> int: ...

    def divide(self, size: int) -> Sequence[RowsShard]:
        """Divide the rows into shards of `size`."""


def divide_rows(vectors: NDArray[np.float32] | DividedRows, size: int) -> Sequence[RowsShard]:
    """Divide vectors [n, d], in memory or in files, into shards of `size` rows."""
    if not isinstance(vectors, np.ndarray):
        return vectors.divide(size)
    return [RowsInMemory(first, vectors[first : first + size]) for first in range(0, len(vectors), max(size, 1))]


def take_rows(vectors: NDArray[np.float32] | DividedRows, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return chosen rows [m, d] of vectors [n, d] in memory or in files, of which only the blocks that hold them are read.

    They are int64 [m] of 0 … n − 1, ascending without repetitions; without any, nothing is read and d is 0.

    Raises:
        UserError: when a file is damaged.
    """
    if isinstance(vectors, np.ndarray):
        return vectors[chosen]
    parts: list[NDArray[np.float32]] = []
    for shard in vectors.divide(ROWS_PER_BLOCK) if len(chosen) else ():
        begin, end = np.searchsorted(chosen, [shard.first, shard.first + len(shard)])
        if begin < end:
            parts.append(shard.load()[chosen[begin:end] - shard.first])
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
