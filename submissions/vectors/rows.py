"""Rows of vectors to search in, in memory or in a file, divided into shards that other processes can load."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

ROWS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class RowsShard:
    """Consecutive rows, which are loaded where they are needed.

    Attributes:
        first: Number of the first one.
        count: How many they are.
        load: Returns them [n, d]; raises UserError where a file is missing or damaged.
    """

    first: int
    count: int
    load: Callable[[], NDArray[np.float32]]

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class StoredRows:
    """The vectors of a file's readable images, which need not fit into memory.

    Attributes:
        read: Returns rows [n, d] of the file from the first number up to before the second, in any process.
        unreadable: Flags of all of its rows, bool [m].
    """

    read: Callable[[int, int], NDArray[np.float32]]
    unreadable: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(np.count_nonzero(~self.unreadable))

    def divide(self, size: int) -> list[RowsShard]:
        """Divide the rows of the file, unreadable ones included, into shards of `size`; shards of these alone are left out."""
        parts = [(start, ~self.unreadable[start : start + size]) for start in range(0, len(self.unreadable), size)]
        counts = [int(np.count_nonzero(chosen)) for _, chosen in parts]
        firsts = np.cumsum([0, *counts]).tolist()
        shards = (
            RowsShard(first, count, partial(_load, self.read, *part))
            for first, count, part in zip(firsts, counts, parts, strict=False)
        )
        return [shard for shard in shards if len(shard)]


VectorRows = NDArray[np.float32] | StoredRows  # vectors [n, d]


def _load(read: Callable[[int, int], NDArray[np.float32]], start: int, chosen: NDArray[np.bool_]) -> NDArray[np.float32]:
    return read(start, start + len(chosen))[chosen]


def divide_rows(vectors: VectorRows, size: int) -> list[RowsShard]:
    """Divide vectors [n, d], in memory or in files, into shards of `size` rows."""
    if not isinstance(vectors, np.ndarray):
        return vectors.divide(size)
    parts = ((first, vectors[first : first + size]) for first in range(0, len(vectors), max(size, 1)))
    return [RowsShard(first, len(part), partial(np.asarray, part)) for first, part in parts]


def join_blocks(blocks: Iterable[NDArray[np.float32]], count: int, dimensions: int) -> NDArray[np.float32]:
    """Return blocks [m, d] of so many rows as one array, with one further block in memory."""
    joined, row = np.empty((count, dimensions), np.float32), 0
    for block in blocks:
        joined[row : row + len(block)] = block
        row += len(block)
    return joined


def take_rows(vectors: VectorRows, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
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
