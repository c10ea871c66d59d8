"""Blocks of pictures: each is packed into one file once, with the lists that its vectors go to, and stays for later runs.

Two blocks are compared by one job, which opens two files. As blocks grow with the square root of the number of pictures, the
number of files that are opened grows with the number of pictures itself.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import whole_file
from image_copies.matching.dedup.collection import Collection, Numbers, read_vectors

Normalize = Callable[[NDArray[np.float32]], NDArray[np.float32]]
Assign = Callable[[NDArray[np.float32]], NDArray[np.int64]]
PICTURES_PER_ROOT = 64  # pictures of a block per square root of the number of pictures
MOST_PICTURES = 2**18  # most pictures of a block; a job holds two blocks, and reads those of the next
MOST_SMALL = 8  # blocks of less than half the size, as new pictures make them, before they are joined


class Part(NamedTuple):
    """A part's file of vectors, and the row of the block at which its pictures begin."""

    path: Path
    first: int


@dataclass(frozen=True)
class Block:
    """Parts of a collection that are packed together.

    Attributes:
        names: Of the parts, in their states.
        files: Their numbers in the collection.
    """

    names: tuple[str, ...]
    files: tuple[int, ...]

    @property
    def key(self) -> str:
        """The name of what is packed."""
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:20]

    def parts(self, collection: Collection) -> list[Part]:
        """Return the parts."""
        return [Part(collection.files[file], first) for file, first in zip(self.files, self._firsts(collection), strict=False)]

    def count(self, collection: Collection) -> int:
        """Return how many pictures it has."""
        return self._firsts(collection)[-1]

    def numbers(self, collection: Collection, rows: NDArray[np.int32]) -> Numbers:
        """Return the numbers in the collection of rows [n] of the block."""
        firsts = np.array(self._firsts(collection))
        part = np.searchsorted(firsts, rows, side="right") - 1
        return np.asarray(collection.starts[np.array(self.files)[part]] + rows - firsts[part])

    def _firsts(self, collection: Collection) -> list[int]:
        files = np.array(self.files)
        return [0, *np.cumsum(collection.starts[files + 1] - collection.starts[files]).tolist()]


def plan_blocks(collection: Collection, first: int, end: int, known: Sequence[Sequence[str]], planned: int) -> list[Block]:
    """Divide the files from `first` up to the one before `end` into blocks.

    `known` are the names of the parts of each block of earlier runs, which stay blocks if all their parts are there; where there
    are too many small ones, these are divided again. `planned` is the number of pictures that the lists were made for.
    """
    size = min(MOST_PICTURES, max(1, round(PICTURES_PER_ROOT * planned**0.5)))
    places = {collection.name_part(file): file for file in range(first, end)}
    kept = [
        Block(tuple(names), tuple(places[name] for name in names)) for names in known if all(name in places for name in names)
    ]
    large = [block for block in kept if 2 * block.count(collection) >= size]
    if len(kept) - len(large) > MOST_SMALL:
        kept = large
    taken = {file for block in kept for file in block.files}
    left = [file for file in range(first, end) if file not in taken]
    ends = np.cumsum([0, *(int(collection.starts[file + 1] - collection.starts[file]) for file in left)])
    count = -(-int(ends[-1]) // size)
    bounds = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], count + 1))).tolist()
    for start, stop in pairwise(bounds):
        files = tuple(left[start:stop])
        kept.append(Block(tuple(map(collection.name_part, files)), files))
    return kept


@dataclass(frozen=True)
class Packed:
    """A block as it is compared. Of pictures with equal bytes the first stands for the others, its twins.

    Attributes:
        vectors: float16 [m, d].
        queries: The same normalised; the vectors themselves where that changes nothing.
        rows: Row in the block, int32 [k ≥ m]: first of the pictures with vectors, then of those that show nothing.
        digests: The first 8 bytes of each one's digest, uint64 [k].
        twins: Rows of pictures and of twins, int32 [t, 2].
        starts: Where each list begins in `members`, and the end, int64 [lists + 1].
        members: The vectors of each list, int32.
    """

    vectors: NDArray[np.float16]
    queries: NDArray[np.float16]
    rows: NDArray[np.int32]
    digests: NDArray[np.uint64]
    twins: NDArray[np.int32]
    starts: NDArray[np.int64]
    members: NDArray[np.int32]

    @property
    def is_normalized(self) -> bool:
        """Whether queries differ from vectors."""
        return self.queries is not self.vectors

    def write(self, path: Path) -> None:
        """Write the block, whole."""
        arrays = {name: value for name, value in vars(self).items() if name != "queries" or self.is_normalized}
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def read(cls, path: Path) -> "Packed":
        """Read a block."""
        with path.open("rb") as file, np.load(file) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        return cls(**{"queries": found["vectors"]} | found)


def pack_block(parts: Sequence[Part], normalize: Normalize, assign: Assign, lists: int) -> Packed:
    """Read the parts of a block; `assign` returns the lists [n, c] that vectors [n, d] go to, below `lists`."""
    found = [_read_part(part, normalize, assign) for part in parts]
    vectors, queries, nearest, rows, digests, flat = (np.concatenate(own) for own in zip(*found, strict=True))
    _, first, contents = np.unique(digests, return_index=True, return_inverse=True)
    stands = first[contents]
    alone = stands == np.arange(len(rows))
    compared, shown = np.flatnonzero(alone & ~flat), np.flatnonzero(alone & flat)
    order = np.argsort(nearest[compared], axis=None, kind="stable")
    sizes = np.bincount(nearest[compared].ravel(), minlength=lists)
    kept, asked = vectors[compared], queries[compared]
    every = np.concatenate([compared, shown])
    return Packed(
        vectors=kept,
        queries=kept if np.array_equal(kept, asked) else asked,
        rows=rows[every],
        digests=digests[every],
        twins=np.stack([rows[stands[~alone]], rows[~alone]], axis=1),
        starts=np.append(0, np.cumsum(sizes)).astype(np.int64),
        members=(order // max(1, nearest.shape[1])).astype(np.int32),
    )


def _read_part(part: Part, normalize: Normalize, assign: Assign) -> tuple[NDArray[Any], ...]:
    vectors, readable, table = read_vectors(part.path)
    digests = np.frombuffer(b"".join(digest[:8] for digest in table["sha256"].to_pylist()), "<u8")
    rounded = [own.astype(np.float16) for own in (vectors, normalize(vectors) if len(vectors) else vectors)]
    return *rounded, assign(vectors), (part.first + readable).astype(np.int32), digests, table["flat"].to_numpy()
