"""Which pictures are compared: each vector goes to its nearest of many lists, and what meets in a list is compared exactly.

Blocks of pictures, and the pairs of every two of them, stay for later runs: new pictures are compared with the old ones.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np

from image_copies.data.remote import map_files
from image_copies.data.sources.walking import walk

from ..groups.groups import PAIR, Pairs, keep_once, pack_pairs
from .blocks import (
    PICTURES_PER_ROOT,
    Block,
    Packed,
    compare_blocks,
    load_array,
    pack_block,
    plan_blocks,
    save_arrays,
)
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
        """The number of pictures that the lists are made for, which lasts until there are twice as many."""
        return 1 << (len(self.collection) - 1).bit_length()

    @property
    def count(self) -> int:
        """How many lists there are."""
        return 1 if len(self.collection) <= EXACT else round(LISTS_PER_ROOT * self.planned**0.5)

    @property
    def copies(self) -> int:
        """How many lists a vector goes to."""
        growth: float = max(1.0, self.planned / EXACT) ** GROWTH
        return min(round(NEAREST * growth), self.count)

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
    inputs = plan_blocks(collection, 0, collection.border, lists.planned)
    tests = plan_blocks(collection, collection.border, len(collection.files), lists.planned)
    both = product(inputs, tests) if tests else combinations_with_replacement(inputs, 2)
    met = {lists.pairs(meeting): meeting for meeting in ((min(pair), max(pair)) for pair in both)}
    blocks = {lists.block(block): block for block in [*inputs, *tests]}
    results = lists.embedding.folder
    do_missing("choosing lists", lists, make_centroids, {lists.centroids: None}, results)
    do_missing("sorting into lists", lists, write_block, blocks, results)
    do_missing("comparing", lists, write_pairs, met, results)
    needed = {lists.centroids, *blocks, *met}
    for path in walk(results / FOLDER, hidden=False):
        if path not in needed and path.suffix == ".npz":
            path.unlink()
    found = [np.empty(0, PAIR)]
    held = met | {lists.block(block): (block, block) for block in inputs}
    for meeting, pairs in zip(
        held.values(), map_files(partial(load_array, "pairs"), list(held)), strict=True
    ):
        own = pairs[pairs["score"] >= -lists.limit]
        numbers = np.concatenate(
            [np.arange(*collection.starts[[block.first, block.end]]) for block in meeting]
        )
        found.append(pack_pairs(numbers[own["first"]], numbers[own["second"]], own["score"]))
    return keep_once(np.concatenate(found), len(collection))


def make_centroids(lists: Lists, _: None) -> None:
    """Compute the lists' centroids [lists, d] from vectors of files that are drawn at random."""
    sample = lists.collection.draw(SAMPLES * lists.count)
    centroids = np.resize(sample, (lists.count, sample.shape[1]))  # one list, or hardly anything can be read
    if 1 < lists.count < len(sample):
        import faiss  # imported here: small sets need none

        points = {"min_points_per_centroid": 1, "max_points_per_centroid": SAMPLES}
        means = faiss.Kmeans(sample.shape[1], lists.count, niter=ROUNDS, seed=0, **points)
        means.train(sample)
        centroids = np.asarray(means.centroids)
    save_arrays(lists.centroids, centroids=centroids)


def write_block(lists: Lists, block: Block) -> None:
    """Pack a block."""
    centroids = load_array("centroids", lists.centroids)
    packed = pack_block(lists.collection, block, lists.embedding.open().normalize, centroids, lists.copies)
    save_arrays(lists.block(block), **vars(packed))


def write_pairs(lists: Lists, meeting: Meeting) -> None:
    """Write the pairs of two blocks."""
    one = Packed.read(lists.block(meeting[0]))
    other = one if meeting[0] == meeting[1] else Packed.read(lists.block(meeting[1]))
    save_arrays(lists.pairs(meeting), pairs=compare_blocks(one, other, lists.found_within))
