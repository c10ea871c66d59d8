"""Which pictures are compared: each vector goes to its nearest of many lists, and what meets in a list is compared exactly.

Blocks of pictures, and the pairs of every two of them, stay for later runs: new pictures are compared with the old ones.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from image_copies.data.files import is_file, whole_file
from image_copies.data.remote import map_files
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.data.sources.walking import walk
from image_copies.matching.dedup.blocks import (
    PICTURES_PER_ROOT,
    Block,
    Packed,
    pack_block,
    plan_blocks,
    read_twins,
)
from image_copies.matching.dedup.collection import Collection, list_names, load_array
from image_copies.matching.dedup.comparing import compare_blocks
from image_copies.matching.extractor import Extractor

EXACT = 20_000  # pictures up to which all are compared with all
LISTS_PER_ROOT = 2  # lists per square root of the number of pictures
# lists that a vector goes to, of EXACT pictures; the power of their number with which they grow
NEAREST, GROWTH = 13, 1 / 8
SAMPLES = 48  # vectors per list that the centroids are computed from
ROUNDS = 10  # iterations of k-means
# limits per unit of squared distance, to which one is raised: a slightly other threshold then finds what it
# needs
LIMITS = 32
PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("distance", "<f8"), ("same", "?")])
Meeting = tuple[Block, Block]  # two blocks to be compared, or one with itself
Job = TypeVar("Job")


@dataclass(frozen=True)
class Lists:
    """Where vectors are compared, and when a pair counts: what every process needs to know.

    Attributes:
        open: Opens the extractor, whose query normalisation is used.
        collection: The pictures.
        limit: Largest squared distance of a pair.
        parent: Folder of the results' lists.
        about: What else the lists depend on.
        across: Whether inputs are compared with test sets only.
    """

    open: Callable[[], Extractor]
    collection: Collection
    limit: float
    parent: Path
    about: str
    across: bool

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
        said = f"{self.about} {self.count} {self.copies} {PICTURES_PER_ROOT}"
        return self.parent / hashlib.sha256(said.encode()).hexdigest()[:20]

    @property
    def centroids(self) -> Path:
        """The file of the centroids."""
        return self.folder / "centroids.npy"

    @property
    def found_within(self) -> float:
        """The squared distance within which pairs are kept."""
        return math.ceil(self.limit * LIMITS) / LIMITS

    def block(self, block: Block) -> Path:
        """Return the file of a block."""
        return self.folder / "blocks" / f"{block.key}.npz"

    def pairs(self, meeting: Meeting) -> Path:
        """Return the file of the pairs of two blocks."""
        return self.folder / "pairs" / f"{self.found_within}" / f"{meeting[0].key}-{meeting[1].key}.npy"


def find_pairs(lists: Lists) -> NDArray[np.void]:
    """Return the pairs PAIR [n] within the limit, sorted by their numbers; what an earlier run has done is not done again.

    With test sets, the equal pictures of the inputs are pairs, too. What this run does not need is removed.
    """
    starts = lists.collection.starts
    border, end = int(np.searchsorted(starts, lists.collection.inputs)), len(lists.collection.files)
    inputs, tests = (
        plan_blocks(lists.collection, *ends, lists.planned) for ends in ((0, border), (border, end))
    )
    both = product(inputs, tests) if lists.across else combinations_with_replacement(inputs, 2)
    meetings = [(min(pair), max(pair)) for pair in both]
    blocks = {lists.block(block): block for block in [*inputs, *tests]}
    met = {lists.pairs(meeting): meeting for meeting in meetings}
    if not is_file(lists.centroids):
        _do(lists, "choosing lists", make_centroids, {lists.centroids: None})
    _do(lists, "sorting into lists", write_block, blocks)
    _do(lists, "comparing", write_pairs, met)
    needed = {lists.centroids, *blocks, *met}
    for path in walk(lists.parent):
        if path not in needed and path.suffix in (".npy", ".npz"):
            path.unlink()
    found = [np.empty(0, PAIR)]
    for (one, other), own in zip(meetings, map_files(load_array, list(met)), strict=True):
        own = own[own["distance"] <= lists.limit]
        sides = starts[one.first] + own["one"], starts[other.first] + own["other"]
        columns = np.minimum(*sides), np.maximum(*sides), own["distance"], own["same"]
        found.append(np.rec.fromarrays(columns, PAIR))
    for block, twins in zip(inputs, map_files(read_twins, list(map(lists.block, inputs))), strict=True):
        columns = *(starts[block.first] + np.sort(twins).T), np.zeros(len(twins)), np.ones(len(twins), bool)
        found.append(np.rec.fromarrays(columns, PAIR))
    every = np.concatenate(found)
    return every[np.lexsort((every["second"], every["first"]))]


def _do(lists: Lists, name: str, work: Callable[[Lists, Job], None], jobs: Mapping[Path, Job]) -> None:
    """Do the jobs of which the files are not there yet; all files are in one folder."""
    known = {name for folder in {path.parent for path in jobs} for name in list_names(folder)}
    missing = [job for path, job in jobs.items() if path.name not in known]
    lists.folder.mkdir(parents=True, exist_ok=True)
    shards: ShardWork[Lists, Job, None] = ShardWork(
        name=name,
        unit="job",
        open=partial(hold, lists),
        work=partial(_do_alone, work),
        size=_count_one,
        folder=lists.folder,
        opened_as=str(lists.folder),
        uses_gpu=True,
    )
    for _ in run_shards(shards, missing, len(missing)):
        pass


def _count_one(job: object) -> int:
    return 1


def _do_alone(work: Callable[[Lists, Job], None], lists: Lists, job: Job, place: Place) -> None:
    with threadpool_limits(1):  # the last bits depend on the number of threads
        work(lists, job)
    place.advance(1)


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
    with whole_file(lists.centroids) as temporary, temporary.open("wb") as file:
        np.save(file, centroids)


def write_block(lists: Lists, block: Block) -> None:
    """Pack a block."""
    packed = pack_block(
        lists.collection, block, lists.open().normalize, load_array(lists.centroids), lists.copies
    )
    packed.write(lists.block(block))


def write_pairs(lists: Lists, meeting: Meeting) -> None:
    """Write the pairs of two blocks."""
    one = Packed.read(lists.block(meeting[0]))
    other = one if meeting[0] == meeting[1] else Packed.read(lists.block(meeting[1]))
    with whole_file(lists.pairs(meeting)) as temporary, temporary.open("wb") as file:
        np.save(file, compare_blocks(one, other, lists.found_within))
