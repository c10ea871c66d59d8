"""Blocks of pictures: each is packed into one file once, with the lists that its vectors go to, and stays for later runs.

Two blocks are compared by one job, which opens two files. As blocks grow with the square root of the number of pictures, the
number of files that are opened grows with the number of pictures itself.
"""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import whole_file
from image_copies.matching.dedup.collection import Collection, read_vectors
from image_copies.submissions.search.neighbours import Neighbours

PICTURES_PER_ROOT = 64  # pictures of a block, at most, per square root of the number of pictures
MOST_PICTURES = 2**18  # most pictures of a block; a job holds two blocks


class Block(NamedTuple):
    """Files of a collection that are packed together: the name of what they hold, and the numbers of the first and the end."""

    key: str
    first: int
    end: int


def plan_blocks(collection: Collection, first: int, end: int, planned: int) -> list[Block]:
    """Divide the files from `first` up to the one before `end` into blocks, where their names say so.

    So a new file changes one block and few that follow. `planned` is the number of pictures that the lists are made for.
    """
    size = min(MOST_PICTURES, max(1, round(PICTURES_PER_ROOT * planned**0.5)))
    blocks, names, starts = list[Block](), list[str](), collection.starts.tolist()
    begin = first
    for file in range(first, end):
        names.append(collection.name_part(file))
        own, held = starts[file + 1] - starts[file], starts[file + 1] - starts[begin]
        ends = 2 * held >= size and zlib.crc32(names[-1].encode()) % max(1, size // (4 * own)) == 0
        if ends or held + own > size or file + 1 == end:
            blocks.append(Block(hashlib.sha256("\n".join(names).encode()).hexdigest()[:20], begin, file + 1))
            begin, names = file + 1, []
    return blocks


@dataclass(frozen=True)
class Packed:
    """A block as it is compared. Of pictures with equal bytes the first stands for the others, its twins.

    Attributes:
        vectors: float16 [m, d].
        queries: The same normalised; none where that changes nothing.
        rows: Row in the block, int32 [k ≥ m]: first of the pictures with vectors, then of those that show nothing.
        digests: SHA-256 of each, bytes [k].
        twins: Rows of pictures and of twins, int32 [t, 2].
        starts: Where each list begins in `members`, and the end, int64 [lists + 1].
        members: The vectors of each list, int64.
    """

    vectors: NDArray[np.float16]
    queries: NDArray[np.float16]
    rows: NDArray[np.int32]
    digests: NDArray[np.bytes_]
    twins: NDArray[np.int32]
    starts: NDArray[np.int64]
    members: NDArray[np.int64]

    def write(self, path: Path) -> None:
        """Write the block, whole."""
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **vars(self))

    @classmethod
    def read(cls, path: Path) -> "Packed":
        """Read a block."""
        with path.open("rb") as file, np.load(file) as arrays:
            return cls(**arrays)


def read_twins(path: Path) -> NDArray[np.int32]:
    """Return the twins [t, 2] of a block, without the rest of it."""
    with path.open("rb") as file, np.load(file) as arrays:
        return np.asarray(arrays["twins"])


def pack_block(
    collection: Collection,
    block: Block,
    normalize: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    centroids: NDArray[np.float32],
    copies: int,
) -> Packed:
    """Read the files of a block, and find the `copies` nearest lists of each vector, by their centroids [lists, d]."""
    files = range(block.first, block.end)
    found = [read_vectors(collection.files[file]) for file in files]
    firsts = [collection.starts[file] - collection.starts[block.first] for file in files]
    rows = np.concatenate([first + own for first, (_, own, _) in zip(firsts, found, strict=True)]).astype(
        np.int32
    )
    digests = np.array([digest for *_, table in found for digest in table["sha256"].to_pylist()], "S32")
    flat = np.concatenate([table["flat"].to_numpy() for *_, table in found])
    _, first, contents = np.unique(digests, return_index=True, return_inverse=True)
    stands = first[contents]
    alone = stands == np.arange(len(rows))
    compared = np.flatnonzero(alone & ~flat)
    every = np.concatenate([compared, np.flatnonzero(alone & flat)])
    vectors = np.concatenate([own for own, _, _ in found])[compared]
    kept, queries = (
        own.astype(np.float16) for own in (vectors, normalize(vectors) if len(vectors) else vectors)
    )
    nearest = Neighbours(centroids).nearest(vectors, copies).rows
    sizes = np.bincount(nearest.ravel(), minlength=len(centroids))
    return Packed(
        vectors=kept,
        queries=queries[:0] if np.array_equal(queries, kept) else queries,
        rows=rows[every],
        digests=digests[every],
        twins=np.stack([rows[stands[~alone]], rows[~alone]], axis=1),
        starts=np.append(0, np.cumsum(sizes)),
        members=np.argsort(nearest, axis=None, kind="stable") // copies,
    )
