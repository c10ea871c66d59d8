"""Which pictures are compared: each vector goes to its nearest of many lists, and what meets in a list is compared exactly.

Blocks of pictures, and the pairs of every two of them, stay for later runs: new pictures are compared with the old ones.
"""

import hashlib
import json
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations_with_replacement, product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from image_copies.data.files import is_file, read_json, whole_file, write_text
from image_copies.data.remote import map_files, remove_folder
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.data.threads import ReadAhead
from image_copies.matching.dedup.blocks import PICTURES_PER_ROOT, Block, Packed, Part, pack_block, plan_blocks
from image_copies.matching.dedup.collection import Collection, list_names, load_array, read_vectors
from image_copies.matching.dedup.comparing import compare_blocks
from image_copies.matching.extractor import Extractor

EXACT = 20_000  # pictures up to which all are compared with all
LISTS_PER_ROOT = 2  # lists per square root of the number of pictures
NEAREST, GROWTH = 13, 1 / 8  # lists that a vector goes to, of EXACT pictures; the power of their number with which they grow
SAMPLES = 48  # vectors per list that the centroids are computed from
ROUNDS = 10  # iterations of k-means
LIMITS = 32  # limits per unit of squared distance, to which one is raised: a slightly other threshold then finds what it needs
MOST_GROWTH = 2  # factor by which a collection may grow or shrink before its lists are chosen again
BLOCKS, PLAN = "blocks", "blocks.json"
PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("distance", "<f8"), ("same", "?")])


class Packing(NamedTuple):
    """A block to be packed: its name, its parts, and how many pictures it has."""

    key: str
    parts: Sequence[Part]
    items: int


class Meeting(NamedTuple):
    """Two blocks to be compared, or one with itself, and how many pictures they have."""

    one: str
    other: str
    items: int

    @property
    def name(self) -> str:
        """The name of the file with the pairs of the two."""
        return f"{self.one}-{self.other}.npy"


class Choosing(NamedTuple):
    """The files whose vectors the centroids are computed from, in this order until there are enough, and their pictures."""

    files: Sequence[Path]
    items: int


AnyJob = TypeVar("AnyJob", Packing, Meeting, Choosing)


@dataclass(frozen=True)
class Lists:
    """Where vectors are compared, and when a pair counts: what every process needs to know.

    Attributes:
        open: Opens the extractor, whose query normalisation is used.
        limit: Largest squared distance of a pair that is found.
        folder: Of centroids, blocks and pairs.
        planned: The number of pictures that the lists were made for.
        across: Whether inputs are compared with test sets only.
    """

    open: Callable[[], Extractor]
    limit: float
    folder: Path
    planned: int
    across: bool

    @property
    def count(self) -> int:
        """How many lists there are."""
        return 1 if self.planned <= EXACT else round(LISTS_PER_ROOT * self.planned**0.5)

    @property
    def copies(self) -> int:
        """How many lists a vector goes to."""
        growth: float = max(1.0, self.planned / EXACT) ** GROWTH
        return min(round(NEAREST * growth), self.count)

    @property
    def centroids(self) -> Path:
        """The file of the centroids."""
        return self.folder / "centroids.npy"

    @property
    def pairs(self) -> Path:
        """The folder of the pairs, a file for every two blocks."""
        return self.folder / f"{'across' if self.across else 'within'}-{self.limit}"

    def block(self, key: str) -> Path:
        """Return the file of a block."""
        return self.folder / BLOCKS / f"{key}.npz"


@dataclass
class Opened:
    """Lists in a process; the extractor, centroids and blocks are opened when they are first needed."""

    lists: Lists
    upcoming: Any = None  # the job that probably comes next here
    _blocks: ReadAhead[str, Packed] = field(default_factory=partial(ReadAhead, 1))

    @cached_property
    def extractor(self) -> Extractor:
        """The extractor, whose query normalisation is used."""
        return self.lists.open()

    @cached_property
    def centroids(self) -> NDArray[np.float32]:
        """The centroids [lists, d]."""
        return load_array(self.lists.centroids)

    def normalize(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return normalised vectors [n, d]."""
        return self.extractor.normalize(vectors)

    def read(self, job: Meeting) -> list[Packed]:
        """Return the two blocks of a job, and begin to read those of the next one; no others are kept."""
        upcoming = self.upcoming or job
        return self._blocks.read(self._read_block, (job.one, job.other), (upcoming.one, upcoming.other))

    def _read_block(self, key: str) -> Packed:
        return Packed.read(self.lists.block(key))


def choose_folder(parent: Path, about: str, count: int) -> tuple[Path, int]:
    """Return the folder of the lists of so many pictures, and the number that they were made for; others are removed.

    Lists stay while the collection has not grown or shrunk too much. `about` says what else they depend on.
    """
    said = f"{about} {EXACT} {LISTS_PER_ROOT} {NEAREST} {GROWTH} {PICTURES_PER_ROOT}"
    prefix, names = f"{hashlib.sha256(said.encode()).hexdigest()[:20]}-", list_names(parent)
    made = [int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)]
    usable = [one for one in made if one / MOST_GROWTH <= count <= one * MOST_GROWTH and (one <= EXACT) == (count <= EXACT)]
    planned = min(usable, default=count)
    for other in names - {f"{prefix}{planned}"}:
        remove_folder(parent / other)
    folder = parent / f"{prefix}{planned}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder, planned


def find_pairs(collection: Collection, lists: Lists) -> NDArray[np.void]:
    """Return the pairs PAIR [n] within the limit, sorted by their numbers; what an earlier run has done is not done again."""
    limit, lists = lists.limit, _raise_limit(lists)
    meetings = _plan_meetings(collection, lists)
    blocks = {block.key: block for meeting in meetings for block in meeting}
    if lists.count > 1 and not is_file(lists.centroids):
        _do(lists, make_centroids, "choosing lists", "image", [_choose_files(collection, lists.count * SAMPLES)])
    known = list_names(lists.folder / BLOCKS)
    missing = [block for key, block in blocks.items() if lists.block(key).name not in known]
    packing = [Packing(block.key, block.parts(collection), block.count(collection)) for block in missing]
    _do(lists, write_block, "sorting into lists", "image", packing)
    known, sizes = list_names(lists.pairs), {key: block.count(collection) for key, block in blocks.items()}
    jobs = [Meeting(one.key, other.key, sizes[one.key] + sizes[other.key]) for one, other in meetings]
    _do(lists, write_pairs, "comparing", "image", [job for job in jobs if job.name not in known])
    _remove_others(lists.folder, blocks)
    found = [np.empty(0, PAIR)]
    paths = [lists.pairs / job.name for job in jobs]
    for (one, other), met in zip(meetings, map_files(load_array, paths), strict=True):
        met = met[met["distance"] <= limit]
        sides = one.numbers(collection, met["one"]), other.numbers(collection, met["other"])
        pairs = np.empty(len(met), PAIR)
        pairs["first"], pairs["second"] = np.minimum(*sides), np.maximum(*sides)
        pairs["distance"], pairs["same"] = met["distance"], met["same"]
        found.append(pairs)
    every = np.concatenate(found)
    return every[np.lexsort((every["second"], every["first"]))]


def _raise_limit(lists: Lists) -> Lists:
    """Return lists whose limit is that of pairs that are there, or a round one; pairs within a smaller one are removed."""
    mode = lists.pairs.name.partition("-")[0]
    names = [name for name in list_names(lists.folder) if name.startswith(f"{mode}-")]
    there = {float(name.removeprefix(f"{mode}-")): name for name in names}
    found = min((limit for limit in there if limit >= lists.limit), default=math.ceil(lists.limit * LIMITS) / LIMITS)
    for limit in sorted(there):
        if limit < found:
            remove_folder(lists.folder / there[limit])
    lists = replace(lists, limit=found)
    lists.pairs.mkdir(parents=True, exist_ok=True)
    return lists


def _plan_meetings(collection: Collection, lists: Lists) -> list[tuple[Block, Block]]:
    """Divide the collection into blocks, and return which of them are compared; remember the blocks."""
    known = read_json(lists.folder / PLAN).get("blocks", [])
    border, end = int(np.searchsorted(collection.starts, collection.inputs)), len(collection.files)
    inputs, tests = (plan_blocks(collection, *ends, known, lists.planned) for ends in ((0, border), (border, end)))
    names = dict.fromkeys(block.names for block in (*inputs, *tests))
    write_text(lists.folder / PLAN, json.dumps({"blocks": list(names)}))
    if lists.across:
        return list(product(inputs, tests))
    return [
        (min(pair, key=attrgetter("key")), max(pair, key=attrgetter("key"))) for pair in combinations_with_replacement(inputs, 2)
    ]


def _choose_files(collection: Collection, wanted: int) -> Choosing:
    """Return files with about twice as many pictures as are wanted, as some cannot be read."""
    order = np.random.default_rng(0).permutation(len(collection.files))
    counts = np.cumsum(np.diff(collection.starts)[order])
    chosen = order[: int(np.searchsorted(counts, 2 * wanted)) + 1].tolist()
    return Choosing([collection.files[file] for file in chosen], wanted)


def _remove_others(folder: Path, blocks: Container[str]) -> None:
    """Remove what is known of other blocks."""
    for name in list_names(folder / BLOCKS):
        if name.removesuffix(".npz") not in blocks:
            (folder / BLOCKS / name).unlink()
    for pairs in (folder / name for name in list_names(folder) if name.startswith(("across-", "within-"))):
        for name in list_names(pairs):
            if not all(key in blocks for key in name.removesuffix(".npy").split("-")):
                (pairs / name).unlink()


def _do(lists: Lists, work: Callable[[Opened, AnyJob], None], name: str, unit: str, jobs: Sequence[AnyJob]) -> None:
    """Do jobs."""
    shards: ShardWork[Opened, AnyJob, None] = ShardWork(
        name=name,
        unit=unit,
        open=partial(Opened, lists),
        work=partial(_do_alone, work),
        size=attrgetter("items"),
        folder=lists.folder,
        opened_as=str(lists.pairs),
        uses_gpu=True,
        looks_ahead=True,
    )
    for _ in run_shards(shards, jobs, sum(job.items for job in jobs)):
        pass


def _do_alone(work: Callable[[Opened, AnyJob], None], opened: Opened, job: AnyJob, place: Place) -> None:
    with threadpool_limits(1):  # the last bits depend on the number of threads
        opened.upcoming = place.upcoming
        work(opened, job)
    place.advance(job.items)


def make_centroids(opened: Opened, job: Choosing) -> None:
    """Compute the lists' centroids [lists, d] from the vectors of a sample of files."""
    lists, blocks, count = opened.lists.count, list[NDArray[np.float32]](), 0
    for path in job.files:
        blocks.append(read_vectors(path)[0])
        count += len(blocks[-1])
        if count >= job.items:
            break
    sample = np.concatenate(blocks)[: job.items]
    if len(sample) < lists:
        centroids = np.zeros((lists, sample.shape[1]), np.float32)
        centroids[: len(sample)] = sample
    else:
        import faiss  # imported here: small sets need none

        points = {"min_points_per_centroid": 1, "max_points_per_centroid": SAMPLES}
        means = faiss.Kmeans(sample.shape[1], lists, niter=ROUNDS, seed=0, **points)
        means.train(sample)
        centroids = np.asarray(means.centroids, np.float32)
    with whole_file(opened.lists.centroids) as temporary, temporary.open("wb") as file:
        np.save(file, centroids)


def write_block(opened: Opened, job: Packing) -> None:
    """Pack a block."""
    lists = opened.lists

    def assign(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        if lists.count == 1:
            return np.zeros((len(vectors), 1), np.int64)
        far = np.einsum("kd,kd->k", opened.centroids, opened.centroids) - 2 * (vectors @ opened.centroids.T)
        return np.argpartition(far, lists.copies - 1, axis=1)[:, : lists.copies]

    pack_block(job.parts, opened.normalize, assign, lists.count).write(lists.block(job.key))


def write_pairs(opened: Opened, job: Meeting) -> None:
    """Write the pairs of two blocks."""
    lists, (one, other) = opened.lists, opened.read(job)
    with whole_file(lists.pairs / job.name) as temporary, temporary.open("wb") as file:
        np.save(file, compare_blocks(one, other, lists.limit, lists.across))
