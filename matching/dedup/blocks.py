"""Blocks of pictures: each is packed into one file once, with the lists that its vectors go to, and stays for later runs.

Two blocks are compared by one job, which opens two files. As blocks grow with the square root of the number of pictures, the
number of files that are opened grows with the number of pictures itself.
"""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import whole_file
from image_copies.submissions.search.neighbours import Neighbours, Rows, ScoredPairs

from ..groups.groups import Pairs, keep_once, pack_pairs
from .vectors import Collection

PICTURES_PER_ROOT = 64  # pictures of a block, at most, per square root of the number of pictures
MOST_PICTURES = 2**18  # most pictures of a block; a job holds two blocks
MOST_NEAR = 256  # pictures of a list and a block that one picture is paired with, at most: the nearest
MOST_WAITING = 2**22  # pairs that are held before equal ones are joined
SAME_BYTES = 1.0  # score of a pair of equal bytes; that of any other is −‖q − r‖²


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
    blocks = list[Block]()
    begin = first
    starts = collection.starts.tolist()
    for file in range(first, end):
        own = starts[file + 1] - starts[file]
        held = starts[file + 1] - starts[begin]
        number = zlib.crc32(collection.names[file].encode())
        ends = 2 * held >= size and number % max(1, size // (4 * own)) == 0
        if ends or held + own > size or file + 1 == end:
            said = "\n".join(collection.names[begin : file + 1])
            blocks.append(Block(hashlib.sha256(said.encode()).hexdigest()[:20], begin, file + 1))
            begin = file + 1
    return blocks


@dataclass(frozen=True)
class Packed:
    """A block as it is compared. Of pictures with equal bytes the first stands for the others.

    Attributes:
        sides: The vectors, and behind them the same normalised where that changes them, float16 [1 or 2, n, d].
        digests: SHA-256 of each picture, bytes [n]; of one that cannot be read a name of its own.
        pairs: Pictures with equal bytes, the first of them and another one.
        starts: Where each list begins in `members`, and the end, int64 [lists + 1].
        members: The pictures of each list, int64.
    """

    sides: NDArray[np.float16]
    digests: NDArray[np.bytes_]
    pairs: Pairs
    starts: Rows
    members: Rows

    @classmethod
    def read(cls, path: Path) -> "Packed":
        """Read a block."""
        with path.open("rb") as file, np.load(file) as arrays:
            return cls(**arrays)

    def lists(self) -> list[Rows]:
        """Return the pictures of each list."""
        return np.split(self.members, self.starts[1:-1])


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays [n, …] by their names, whole."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stubs know no names


def load_array(name: str, path: Path) -> NDArray[Any]:
    """Return one of the arrays [n, …] of a file on a disk or an object store, without the others."""
    with path.open("rb") as file, np.load(file) as arrays:
        return np.asarray(arrays[name])


def pack_block(
    collection: Collection,
    block: Block,
    normalize: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    centroids: NDArray[np.float32],
    copies: int,
) -> Packed:
    """Read the files of a block, and find the `copies` nearest lists of each vector, by their centroids [lists, d]."""
    parts = [collection.read_vectors(file) for file in range(block.first, block.end)]
    vectors, readable, flat = (
        np.concatenate(column) for column in zip(*(part[:3] for part in parts), strict=True)
    )
    digests = np.array([digest for part in parts for digest in part[3]], "S32")
    for row in np.flatnonzero(~readable):
        digests[row] = f"{block.key} {row}".encode()
    _, first, contents = np.unique(digests, return_index=True, return_inverse=True)
    stands = first[contents]
    alone = stands == np.arange(len(stands))
    compared = np.flatnonzero(alone & readable & ~flat)
    queries = vectors.copy()
    if len(compared):
        queries[compared] = normalize(vectors[compared])
    sides = np.stack([vectors, queries]).astype(np.float16)
    nearest = Neighbours(centroids).nearest(vectors[compared], copies).rows
    sizes = np.bincount(nearest.ravel(), minlength=len(centroids))
    return Packed(
        sides=sides[:1] if np.array_equal(*sides) else sides,
        digests=digests,
        pairs=pack_pairs(stands[~alone], np.flatnonzero(~alone), np.full((~alone).sum(), SAME_BYTES)),
        starts=np.append(0, np.cumsum(sizes)),
        members=compared[np.argsort(nearest, axis=None, kind="stable") // copies],
    )


def compare_blocks(one: Packed, other: Packed, limit: float) -> Pairs:
    """Return the pairs of two blocks within a squared distance, and those of equal bytes, each once with its highest score.

    The pictures of the second block are numbered after those of the first. A block may be compared with itself: the pairs of
    equal bytes are then its own ones.
    """
    count = 0 if one is other else len(one.digests)
    found = [one.pairs[:0]]
    waiting = 0
    directions = [(one, 0, other, count)]
    if count:
        _, first, second = np.intersect1d(one.digests, other.digests, return_indices=True)
        found.append(pack_pairs(first, second + count, np.full(len(first), SAME_BYTES)))
        if max(len(one.sides), len(other.sides)) > 1:
            directions.append((other, count, one, 0))
    for asked, before, compared, after in directions:
        for members, others in zip(asked.lists(), compared.lists(), strict=True):
            references = Neighbours(compared.sides[0][others].astype(np.float32))
            near = _keep_nearest(references.within(asked.sides[-1][members].astype(np.float32), limit))
            first = members[near.queries] + before
            second = others[near.references] + after
            apart = first != second
            found.append(pack_pairs(first[apart], second[apart], 0 - near.distances[apart]))
            waiting += len(first)
            if waiting > MOST_WAITING:
                found = [keep_once(np.concatenate(found), count + len(other.digests))]
                waiting = len(found[0]) // 2
    return keep_once(np.concatenate(found), count + len(other.digests))


def _keep_nearest(pairs: ScoredPairs) -> ScoredPairs:
    """Return those of each query with the nearest; they are ordered by query."""
    counts = np.bincount(pairs.queries)
    if counts.max(initial=0) <= MOST_NEAR:
        return pairs
    order = np.lexsort((pairs.references, pairs.distances, pairs.queries))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pairs.take(order[rank <= MOST_NEAR])  # one more: itself
