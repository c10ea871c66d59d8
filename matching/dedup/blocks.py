"""The pairs of pictures within a squared distance. Each vector goes to its nearest of many lists; what meets in one is compared.

Pictures are packed into blocks, each one file, with the lists that its vectors go to. Two blocks are compared by one job, which
opens two files. As blocks grow with the square root of the number of pictures, the number of files that are opened grows with the
number of pictures itself. Blocks, and the pairs of every two of them, stay for later runs: new pictures are compared with the old
ones.
"""

import hashlib
import math
import zlib
from dataclasses import dataclass
from functools import partial
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
FORMAT = 2  # of its files
EXACT = 20_000  # pictures up to which all are compared with all
LISTS_PER_ROOT = 2  # lists per square root of the number of pictures
# lists that a vector goes to, of EXACT pictures; the power of their number with which they grow
NEAREST, GROWTH = 13, 1 / 8
SAMPLES = 48  # vectors per list that the centroids are computed from
ROUNDS = 10  # iterations of k-means
# limits per unit of squared distance, to which one is raised: a slightly other threshold then finds what it
# needs
LIMITS = 32
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


Meeting = tuple[Block, Block]  # two blocks to be compared, or one with itself


@dataclass(frozen=True)
class Lists:
    """Where vectors are compared, and when a pair counts: what every process needs to know.

    Attributes:
        embedding: How the pictures were embedded; its extractor's query normalisation is used.
        collection: The pictures.
        limit: Largest squared distance of a pair.
    """

    embedding: Embedding
    collection: Collection
    limit: float

    @property
    def planned(self) -> int:
        """The number of pictures that lists and blocks are made for, which lasts until there are twice as many."""
        return 1 << (len(self.collection) - 1).bit_length()

    @property
    def count(self) -> int:
        """How many lists there are."""
        return 1 if len(self.collection) <= EXACT else round(LISTS_PER_ROOT * math.sqrt(self.planned))

    @property
    def copies(self) -> int:
        """How many lists a vector goes to."""
        growth = math.pow(max(1.0, self.planned / EXACT), GROWTH)
        return min(round(NEAREST * growth), self.count)

    @property
    def block_size(self) -> int:
        """Number of pictures of a block, at most."""
        return min(MOST_PICTURES, max(1, round(PICTURES_PER_ROOT * math.sqrt(self.planned))))

    @property
    def folder(self) -> Path:
        """The folder of centroids, blocks and pairs."""
        said = f"{FORMAT} {self.embedding.identity} {self.count} {self.copies} {PICTURES_PER_ROOT}"
        return self.embedding.folder / FOLDER / hashlib.sha256(said.encode()).hexdigest()[:20]

    @property
    def centroids(self) -> Path:
        """The file of the centroids."""
        return self.folder / "centroids.npz"

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


def find_pairs(lists: Lists) -> Pairs:
    """Return the pairs within the limit, sorted by their numbers; what an earlier run has done is not done again.

    With test sets, the equal pictures of a block of inputs are pairs, too. What this run does not need is removed.
    """
    collection = lists.collection
    inputs = plan_blocks(collection, 0, collection.border, lists.block_size)
    tests = plan_blocks(collection, collection.border, len(collection.files), lists.block_size)
    both = product(inputs, tests) if tests else combinations_with_replacement(inputs, 2)
    met = {lists.pairs(meeting): meeting for meeting in ((min(pair), max(pair)) for pair in both)}
    blocks = {lists.block(block): block for block in [*inputs, *tests]}
    results = lists.embedding.folder
    do_missing("choosing lists", lists, write_centroids, {lists.centroids: None}, results)
    do_missing("sorting into lists", lists, write_block, blocks, results)
    do_missing("comparing", lists, write_pairs, met, results)
    needed = {lists.centroids, *blocks, *met}
    for path in walk(results / FOLDER, hidden=False):
        if path not in needed and path.suffix == ".npz":
            path.unlink()
    found = [np.empty(0, PAIR)]
    held = met | {lists.block(block): (block, block) for block in inputs}
    loaded = map_files(partial(load_array, "pairs"), list(held))
    for meeting, pairs in zip(held.values(), loaded, strict=True):
        own = pairs[pairs["score"] >= -lists.limit]
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


def write_centroids(lists: Lists, _: None) -> None:
    """Compute the lists' centroids [lists, d] from vectors of files that are drawn at random, and write them."""
    sample = lists.collection.draw(SAMPLES * lists.count)
    # one list, or hardly anything can be read
    centroids = np.resize(sample, (lists.count, sample.shape[1]))
    if 1 < lists.count < len(sample):
        import faiss  # imported here: small sets need none

        points = {"min_points_per_centroid": 1, "max_points_per_centroid": SAMPLES}
        means = faiss.Kmeans(sample.shape[1], lists.count, niter=ROUNDS, seed=0, **points)
        means.train(sample)
        centroids = np.asarray(means.centroids)
    save_arrays(lists.centroids, centroids=centroids)


def write_block(lists: Lists, block: Block) -> None:
    """Read the files of a block, find the nearest lists of each vector, and write what is compared."""
    parts = [lists.collection.read_vectors(file) for file in range(block.first, block.end)]
    vectors, readable, flat, digests = map(np.concatenate, zip(*parts, strict=True))
    for row in np.flatnonzero(~readable):
        digests[row] = f"{block.key} {row}".encode()
    _, first, contents = np.unique(digests, return_index=True, return_inverse=True)
    stands = first[contents]
    alone = stands == np.arange(len(stands))
    compared = np.flatnonzero(alone & readable & ~flat)
    queries = vectors.copy()
    if len(compared):
        queries[compared] = lists.embedding.open().normalize(vectors[compared])
    centroids = load_array("centroids", lists.centroids)
    nearest = Neighbours(centroids).nearest(vectors[compared], lists.copies).rows
    sizes = np.bincount(nearest.ravel(), minlength=len(centroids))
    sides = np.stack([vectors, queries]).astype(np.float16)
    packed = Packed(
        sides=sides[:1] if np.array_equal(*sides) else sides,
        digests=digests,
        pairs=pack_pairs(stands[~alone], np.flatnonzero(~alone), np.full((~alone).sum(), SAME_BYTES)),
        starts=np.append(0, np.cumsum(sizes)),
        members=compared[np.argsort(nearest, axis=None, kind="stable") // lists.copies],
    )
    save_arrays(lists.block(block), **vars(packed))


def write_pairs(lists: Lists, meeting: Meeting) -> None:
    """Write the pairs of two blocks."""
    one = Packed.read(lists.block(meeting[0]))
    other = one if meeting[0] == meeting[1] else Packed.read(lists.block(meeting[1]))
    save_arrays(lists.pairs(meeting), pairs=compare_blocks(one, other, lists.found_within))


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
