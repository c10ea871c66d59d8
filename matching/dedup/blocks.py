"""The pairs of pictures within a squared distance, all of which are compared, block by block.

Pictures are packed into blocks, each one file. Two blocks are compared by one job, which opens two files. As blocks grow with the
square root of the number of pictures, the number of files that are opened grows with the number of pictures itself. Blocks, and
the pairs of every two of them, stay for later runs: new pictures are compared with the old ones.
"""

import hashlib
import math
import zlib
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from image_copies.data.files import whole_file
from image_copies.data.remote import map_files
from image_copies.data.sources.walking import walk
from image_copies.submissions.search.neighbours import Neighbours, Rows, ScoredPairs

from ..groups.groups import PAIR, Pairs, keep_once, pack_pairs
from .vectors import Collection, Embedding, do_missing

FOLDER = "lists"  # of the results
FORMAT = 3  # of its files
# limits per unit of squared distance, to which one is raised: a slightly other threshold then finds what it
# needs
LIMITS = 32
PICTURES_PER_ROOT = 64  # pictures of a block, at most, per square root of the number of pictures
MOST_PICTURES = 2**18  # most pictures of a block; a job holds two blocks
MOST_NEAR = 256  # pictures of a block that one picture is paired with, at most: the nearest
ASKED_AT_ONCE = 2048  # pictures of a block that are compared with another block together
SAME_BYTES = 1.0  # score of a pair of equal bytes; that of any other is −‖q − r‖²


class Block(NamedTuple):
    """Files of a collection that are packed together: the name of what they hold, and the numbers of the first and the end."""

    key: str
    first: int
    end: int


Meeting = tuple[Block, Block]  # two blocks to be compared, or one with itself


@dataclass(frozen=True)
class Comparing:
    """What is compared, and when a pair counts: what every process needs to know.

    Attributes:
        embedding: How the pictures were embedded; its extractor's query normalisation is used.
        collection: The pictures.
        limit: Largest squared distance of a pair.
    """

    embedding: Embedding
    collection: Collection
    limit: float

    @property
    def block_size(self) -> int:
        """Number of pictures of a block, at most; it lasts until there are twice as many pictures."""
        planned = 1 << (len(self.collection) - 1).bit_length()
        return min(MOST_PICTURES, max(1, round(PICTURES_PER_ROOT * math.sqrt(planned))))

    @property
    def folder(self) -> Path:
        """The folder of blocks and pairs."""
        said = f"{FORMAT} {self.embedding.identity}"
        return self.embedding.folder / FOLDER / hashlib.sha256(said.encode()).hexdigest()[:20]

    @property
    def found_within(self) -> float:
        """The squared distance within which pairs are kept."""
        return math.ceil(self.limit * LIMITS) / LIMITS

    def block(self, block: Block) -> Path:
        """Return the file of a block."""
        return self.folder / "blocks" / f"{block.key}.npz"

    def pairs(self, meeting: Meeting) -> Path:
        """Return the file of the pairs of two blocks."""
        return self.folder / "pairs" / f"{self.found_within}" / f"{meeting[0].key}-{meeting[1].key}.npz"


def find_pairs(comparing: Comparing) -> Pairs:
    """Return the pairs within the limit, sorted by their numbers; what an earlier run has done is not done again.

    With test sets, the equal pictures of a block of inputs are pairs, too. What this run does not need is removed.
    """
    collection = comparing.collection
    inputs = plan_blocks(collection, 0, collection.border, comparing.block_size)
    tests = plan_blocks(collection, collection.border, len(collection.files), comparing.block_size)
    both = product(inputs, tests) if tests else combinations_with_replacement(inputs, 2)
    met = {comparing.pairs(meeting): meeting for meeting in ((min(pair), max(pair)) for pair in both)}
    blocks = {comparing.block(block): block for block in [*inputs, *tests]}
    results = comparing.embedding.folder
    do_missing("packing", comparing, write_block, blocks, results)
    do_missing("comparing", comparing, write_pairs, met, results)
    for path in walk(results / FOLDER, hidden=False):
        if path not in blocks and path not in met and path.suffix == ".npz":
            path.unlink()
    found = [np.empty(0, PAIR)]
    held = met | {comparing.block(block): (block, block) for block in inputs}
    for meeting, pairs in zip(held.values(), map_files(load_pairs, list(held)), strict=True):
        own = pairs[pairs["score"] >= -comparing.limit]
        ranges = [np.arange(*collection.starts[[block.first, block.end]]) for block in meeting]
        numbers = np.concatenate(ranges)
        found.append(pack_pairs(numbers[own["first"]], numbers[own["second"]], own["score"]))
    return keep_once(np.concatenate(found), len(collection))


def plan_blocks(collection: Collection, first: int, end: int, size: int) -> list[Block]:
    """Divide the files from `first` up to the one before `end` into blocks of a size at most, where their names say so.

    So a new file changes one block and few that follow.
    """
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
        members: The pictures that are compared, int64 [m].
    """

    sides: NDArray[np.float16]
    digests: NDArray[np.bytes_]
    pairs: Pairs
    members: Rows

    @classmethod
    def read(cls, path: Path) -> "Packed":
        """Read a block."""
        with path.open("rb") as file, np.load(file) as arrays:
            return cls(**arrays)


def save_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays [n, …] by their names, whole."""
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stubs know no names


def load_pairs(path: Path) -> Pairs:
    """Return the pairs of a file on a disk or an object store, without its other arrays."""
    with path.open("rb") as file, np.load(file) as arrays:
        return np.asarray(arrays["pairs"])


def write_block(comparing: Comparing, block: Block) -> None:
    """Read the files of a block and write what is compared of it."""
    parts = [comparing.collection.read_vectors(file) for file in range(block.first, block.end)]
    vectors, readable, flat, digests = map(np.concatenate, zip(*parts, strict=True))
    for row in np.flatnonzero(~readable):
        digests[row] = f"{block.key} {row}".encode()
    _, first, contents = np.unique(digests, return_index=True, return_inverse=True)
    stands = first[contents]
    alone = stands == np.arange(len(stands))
    members = np.flatnonzero(alone & readable & ~flat)
    queries = vectors.copy()
    if len(members):
        queries[members] = comparing.embedding.open().normalize(vectors[members])
    sides = np.stack([vectors, queries]).astype(np.float16)
    packed = Packed(
        sides=sides[:1] if np.array_equal(*sides) else sides,
        digests=digests,
        pairs=pack_pairs(stands[~alone], np.flatnonzero(~alone), np.full((~alone).sum(), SAME_BYTES)),
        members=members,
    )
    save_arrays(comparing.block(block), **vars(packed))


def write_pairs(comparing: Comparing, meeting: Meeting) -> None:
    """Write the pairs of two blocks."""
    one = Packed.read(comparing.block(meeting[0]))
    other = one if meeting[0] == meeting[1] else Packed.read(comparing.block(meeting[1]))
    save_arrays(comparing.pairs(meeting), pairs=compare_blocks(one, other, comparing.found_within))


def compare_blocks(one: Packed, other: Packed, limit: float) -> Pairs:
    """Return the pairs of two blocks within a squared distance, and those of equal bytes, each once with its highest score.

    The pictures of the second block are numbered after those of the first. A block may be compared with itself: the pairs of
    equal bytes are then its own ones.
    """
    count = 0 if one is other else len(one.digests)
    found = list[Pairs]()
    directions = [(one, 0, other, count)]
    if count:
        _, first, second = np.intersect1d(one.digests, other.digests, return_indices=True)
        found.append(pack_pairs(first, second + count, np.full(len(first), SAME_BYTES)))
        if max(len(one.sides), len(other.sides)) > 1:
            directions.append((other, count, one, 0))
    for asked, before, compared, after in directions:
        references = Neighbours(compared.sides[0][compared.members].astype(np.float32))
        for start in range(0, len(asked.members), ASKED_AT_ONCE):
            members = asked.members[start : start + ASKED_AT_ONCE]
            near = _keep_nearest(references.within(asked.sides[-1][members].astype(np.float32), limit))
            first = members[near.queries] + before
            second = compared.members[near.references] + after
            apart = first != second
            found.append(pack_pairs(first[apart], second[apart], 0 - near.distances[apart]))
    return keep_once(np.concatenate([one.pairs[:0], *found]), count + len(other.digests))


def _keep_nearest(pairs: ScoredPairs) -> ScoredPairs:
    """Return those of each query with the nearest; they are ordered by query."""
    counts = np.bincount(pairs.queries)
    if counts.max(initial=0) <= MOST_NEAR:
        return pairs
    order = np.lexsort((pairs.references, pairs.distances, pairs.queries))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pairs.take(order[rank <= MOST_NEAR])  # one more: itself
