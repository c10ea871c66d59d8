"""Rows of vectors to search in, in memory or in a file, divided into shards that other processes can load."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.vectors.files import describe_vectors, iterate_vectors


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
    """Rows that travel with the shard.

    Attributes:
        first: Number of the first row.
        vectors: float32 [n, d].
    """

    first: int
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.vectors)

    def load(self) -> NDArray[np.float32]:
        """Return the rows [n, d]."""
        return self.vectors


@dataclass(frozen=True)
class RowsInFile:
    """Rows of readable images that are read from a vectors file.

    Attributes:
        first: Number of the first row, among readable images.
        count: Number of readable images n.
        path: The vectors file.
        start: The first row of the file.
        stop: The row of the file after the last one.
    """

    first: int
    count: int
    path: Path
    start: int
    stop: int

    def __len__(self) -> int:
        return self.count

    def load(self) -> NDArray[np.float32]:
        """Return the rows [n, d].

        Raises:
            UserError: when the file is missing or damaged.
        """
        return np.concatenate(list(self.blocks(self.stop - self.start)))

    def blocks(self, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the rows in blocks [≤ `size`, d]; each ends at a multiple of `size` from `start`, whatever is unreadable.

        Raises:
            UserError: when the file is missing or damaged.
        """
        for rows in iterate_vectors(self.path, size, first=self.start, last=self.stop):
            yield rows[rows.any(axis=1)]  # those of unreadable images are zero, and no others


@dataclass(frozen=True)
class FileRows:
    """The vectors of a file's readable images, which need not fit into memory.

    Attributes:
        path: The vectors file.
        rows: int64 [n], the rows of readable images in the file, ascending.
        length: Number of all rows of the file.
    """

    path: Path
    rows: NDArray[np.int64]
    length: int

    def __len__(self) -> int:
        return len(self.rows)

    def divide(self, size: int) -> list[RowsInFile]:
        """Divide the rows of the file, unreadable ones included, into shards of `size`; shards of these alone are left out."""
        bounds = [*range(0, self.length, size), self.length]
        return divide_file(self.path, bounds, np.searchsorted(self.rows, bounds).tolist())

    def take(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors [m, d] of chosen readable images, int64 [m] ascending without repetitions.

        Raises:
            UserError: when the file is damaged.
        """
        wanted = np.zeros(self.length, bool)
        wanted[self.rows[chosen]] = True
        parts, start = [], 0
        for block in iterate_vectors(self.path):
            parts.append(block[wanted[start : start + len(block)]])
            start += len(block)
        return np.concatenate(parts)


class DividedRows(Protocol):
    """Rows in files, which are divided into shards."""

    def __len__(self) -> int: ...

    def divide(self, size: int) -> Sequence[RowsShard]:
        """Divide the rows into shards of `size`."""


def divide_file(path: Path, bounds: Sequence[int], firsts: Sequence[int]) -> list[RowsInFile]:
    """Divide a vectors file into shards; shards of unreadable images alone are left out.

    Args:
        path: The file.
        bounds: First row of each shard, and the row after the last one.
        firsts: Number of the first readable image from each of these rows on.
    """
    return [
        RowsInFile(firsts[place], firsts[place + 1] - firsts[place], path.absolute(), bounds[place], bounds[place + 1])
        for place in range(len(bounds) - 1)
        if firsts[place + 1] > firsts[place]
    ]


def open_rows(path: Path) -> FileRows:
    """Open a vectors file's readable images.

    Raises:
        UserError: when the file is missing or damaged.
    """
    shape = describe_vectors(path)
    return FileRows(path, np.flatnonzero(~shape.unreadable), len(shape.ids))


def divide_rows(vectors: NDArray[np.float32] | DividedRows, size: int) -> Sequence[RowsShard]:
    """Divide vectors, in memory or in files, into shards of `size` rows."""
    if not isinstance(vectors, np.ndarray):
        return vectors.divide(size)
    return [RowsInMemory(first, vectors[first : first + size]) for first in range(0, len(vectors), max(size, 1))]


def count_rows(shard: RowsShard) -> int:
    """Return the number of rows of a shard."""
    return len(shard)
