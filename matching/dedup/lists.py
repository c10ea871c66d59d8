"""Which pictures are compared: each vector goes to its nearest of many lists, and what meets in a list is compared exactly.

Equal bytes have equal vectors and meet in every list: of them one is compared, and the others are its twins.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from image_copies.data.files import whole_file
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.matching.dedup.collection import Collection, list_names, load_array, read_records
from image_copies.matching.extractor import Extractor
from image_copies.submissions.search.backend import iterate_distances
from image_copies.submissions.search.exact import compute_exact_distances

EXACT = 20_000  # pictures up to which all are compared with all
LISTS_PER_ROOT = 2  # lists per square root of the number of pictures
NEAREST, GROWTH = 8, 1 / 8  # lists that a vector goes to, of EXACT pictures; the power of their number with which they grow
SAMPLES = 48  # vectors per list that the centroids are computed from
ROUNDS = 10  # of k-means
SPREAD = 2**15  # pictures whose vectors are sorted by lists together
BUCKET = 2**17  # entries of lists that are compared by one job, about
MOST_NEAR = 256  # of a list's pictures that one is paired with: the nearest
ROUNDING = 1e-4  # by which float32 may misjudge a squared distance
PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("distance", "<f8"), ("same", "?")])


class Job(NamedTuple):
    """The number of a piece of work, and how many pictures or entries it has."""

    number: int
    items: int


@dataclass(frozen=True)
class ListSearch:
    """What is compared, and when a pair counts.

    Attributes:
        collection: The pictures.
        open: Opens the extractor, whose query normalisation is used.
        limit: Largest squared distance of a pair.
        folder: Of the lists and pairs.
    """

    collection: Collection
    open: Callable[[], Extractor]
    limit: float
    folder: Path

    @property
    def lists(self) -> int:
        """How many lists there are."""
        count = len(self.collection)
        return 1 if count <= EXACT else round(LISTS_PER_ROOT * count**0.5)

    @property
    def copies(self) -> int:
        """How many lists a vector goes to."""
        growth: float = max(1.0, len(self.collection) / EXACT) ** GROWTH
        return min(round(NEAREST * growth), self.lists)

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The ranges of files whose vectors are sorted together."""
        starts = self.collection.starts
        bounds = [0, *(np.flatnonzero(np.diff(starts[1:] // SPREAD)) + 1).tolist(), len(starts) - 1]
        return [(first, end) for first, end in pairwise(bounds) if first < end]

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """The ranges of lists that are compared by one job."""
        count = min(self.lists, max(1, len(self.collection) * self.copies // BUCKET))
        bounds = np.linspace(0, self.lists, count + 1).astype(int).tolist()
        return list(pairwise(bounds))


@dataclass
class Opened:
    """A comparison in a process, and its extractor, opened when it is first needed."""

    comparison: ListSearch

    @cached_property
    def extractor(self) -> Extractor:
        """The extractor, whose query normalisation is used."""
        return self.comparison.open()


def find_pairs(comparison: ListSearch) -> list[Path]:
    """Return files with the pairs within the limit; what an earlier run has finished is not done again."""
    collection, folder = comparison.collection, comparison.folder
    done = [folder / f"pairs-{number}.npy" for number in range(len(comparison.buckets))]
    known = list_names(folder)
    if all(path.name in known for path in done):
        return done
    if "centroids.npy" not in known:
        _do(comparison, make_centroids, "choosing lists", "image", [Job(0, len(collection))])
    bounds = ((n, *collection.starts[[first, end]].tolist()) for n, (first, end) in enumerate(comparison.groups))
    jobs = [Job(n, end - first) for n, first, end in bounds if not {f"entries-{n}", f"starts-{n}"} <= known]
    _do(comparison, spread_vectors, "sorting into lists", "image", jobs)
    entries = len(collection) * comparison.copies // len(done)
    jobs = [Job(n, entries) for n, path in enumerate(done) if path.name not in known]
    _do(comparison, compare_bucket, "comparing", "entry", jobs)
    for number in range(len(comparison.groups)):
        (folder / f"entries-{number}").unlink(missing_ok=True)
    return done


def _do(comparison: ListSearch, work: Callable[[Opened, Job], None], name: str, unit: str, jobs: Sequence[Job]) -> None:
    """Do jobs of a comparison."""
    shards: ShardWork[Opened, Job, None] = ShardWork(
        name=name,
        unit=unit,
        open=partial(Opened, comparison),
        work=partial(_do_alone, work),
        size=attrgetter("items"),
        folder=comparison.folder,
        opened_as=str(comparison.folder),
    )
    for _ in run_shards(shards, jobs, sum(job.items for job in jobs)):
        pass


def _do_alone(work: Callable[[Opened, Job], None], opened: Opened, job: Job, place: Place) -> None:
    with threadpool_limits(1):  # the last bits depend on the number of threads
        work(opened, job)
    place.advance(job.items)


def make_centroids(opened: Opened, job: Job) -> None:
    """Compute the lists' centroids [lists, d] from the vectors of a sample of files."""
    comparison = opened.comparison
    collection, wanted = comparison.collection, comparison.lists * SAMPLES
    blocks, count = list[NDArray[np.float32]](), 0
    for file in np.random.default_rng(0).permutation(len(collection.files)).tolist():
        blocks.append(collection.read_vectors(file)[0])
        count += len(blocks[-1])
        if count >= wanted:
            break
    sample = np.concatenate(blocks)[:wanted]
    if comparison.lists == 1 or len(sample) < comparison.lists:
        centroids = np.zeros((comparison.lists, sample.shape[1]), np.float32)
        centroids[: len(sample)] = sample[: len(centroids)]
    else:
        import faiss  # imported here: small sets need none

        points = {"min_points_per_centroid": 1, "max_points_per_centroid": SAMPLES}
        means = faiss.Kmeans(sample.shape[1], comparison.lists, niter=ROUNDS, seed=0, **points)
        means.train(sample)
        centroids = np.asarray(means.centroids, np.float32)
    with whole_file(comparison.folder / "centroids.npy") as temporary:
        np.save(temporary, centroids)


def spread_vectors(opened: Opened, job: Job) -> None:
    """Write the vectors of a group of files, each once for each of its lists, sorted by lists."""
    comparison = opened.comparison
    collection, (first, end) = comparison.collection, comparison.groups[job.number]
    centroids = load_array(comparison.folder / "centroids.npy")
    squares = np.einsum("kd,kd->k", centroids, centroids)
    lists, entries = list[NDArray[np.int64]](), list[NDArray[np.void]]()
    for file in range(first, end):
        vectors, numbers, table = collection.read_vectors(file)
        if not len(vectors):
            continue
        queries = opened.extractor.normalize(vectors)
        far = squares - 2 * (vectors @ centroids.T)
        nearest = np.argpartition(far, comparison.copies - 1, axis=1)[:, : comparison.copies]
        own = np.empty(len(vectors), entry_type(vectors.shape[1]))
        own["number"], own["vector"], own["query"] = numbers, vectors, queries
        own["digest"] = np.frombuffer(b"".join(digest[:8] for digest in table["sha256"].to_pylist()), "<u8")
        own["flat"] = table["flat"].to_numpy()
        lists.append(nearest.ravel())
        entries.append(np.repeat(own, comparison.copies))
    places, every = np.concatenate(lists or [np.zeros(0, np.int64)]), np.concatenate(entries or [np.empty(0, entry_type(1))])
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(comparison.lists + 1)).astype(np.int64)
    for name, records in (("entries", every[order]), ("starts", starts)):
        with whole_file(comparison.folder / f"{name}-{job.number}") as temporary:
            records.tofile(temporary)


def compare_bucket(opened: Opened, job: Job) -> None:
    """Write the pairs that meet in a range of lists."""
    comparison = opened.comparison
    first, end = comparison.buckets[job.number]
    kind = entry_type(load_array(comparison.folder / "centroids.npy").shape[1])
    starts, entries = list[NDArray[np.int64]](), list[NDArray[np.void]]()
    for number in range(len(comparison.groups)):
        at = read_records(comparison.folder / f"starts-{number}", np.dtype(np.int64), first, end + 1)
        entries.append(read_records(comparison.folder / f"entries-{number}", kind, int(at[0]), int(at[-1])))
        starts.append(at - at[0])
    found = [np.empty(0, PAIR)]
    for number in range(end - first):
        members = np.concatenate([own[at[number] : at[number + 1]] for own, at in zip(entries, starts, strict=True)])
        found += compare_list(members[np.argsort(members["number"])], comparison.limit, comparison.collection.test_sets_begin)
    with whole_file(comparison.folder / f"pairs-{job.number}.npy") as temporary:
        np.save(temporary, keep_best(np.concatenate(found)))


def entry_type(dimensions: int) -> np.dtype[np.void]:
    """Return the type of a list's entry: number, vector and normalised vector, a part of the digest, whether it shows nothing."""
    vector = ("<f2", (dimensions,))
    return np.dtype([("number", "<i8"), ("vector", *vector), ("query", *vector), ("digest", "<u8"), ("flat", "?")])


def compare_list(members: NDArray[np.void], limit: float, test_sets_begin: int | None) -> list[NDArray[np.void]]:
    """Return the pairs PAIR [n] of a list's entries, ascending by number; with test sets only pairs between these and inputs."""
    across = test_sets_begin is not None
    tests = members["number"] >= (test_sets_begin or 0)
    one, other = (members[~tests], members[tests]) if across else (members, members)
    _, first = np.unique(other["digest"], return_index=True)
    known = dict(zip(other["digest"][first].tolist(), other["number"][first].tolist(), strict=True))
    twins = [(n, known[d]) for n, d in zip(one["number"].tolist(), one["digest"].tolist(), strict=True) if known.get(d, n) != n]
    pairs = [np.array([(min(pair), max(pair), 0.0, True) for pair in twins], PAIR)]
    other = other[np.sort(first)]
    one = one if across else other
    one, other = one[~one["flat"]], other[~other["flat"]]
    pairs += _find_near(one, other, limit)
    return pairs + (list(_find_near(other, one, limit)) if across else [])


def _find_near(queries: NDArray[np.void], references: NDArray[np.void], limit: float) -> Iterator[NDArray[np.void]]:
    """Yield the pairs of normalised queries and references within the limit, different digests each."""
    vectors = references["vector"].astype(np.float32)
    asked = queries["query"].astype(np.float32)
    for first, far in iterate_distances(asked, vectors, "distance"):
        if far.shape[1] > MOST_NEAR and ((far <= limit).sum(axis=1) > MOST_NEAR).any():
            bound = np.partition(far, MOST_NEAR, axis=1)[:, MOST_NEAR]
            far[far > bound[:, None]] = np.inf
        rows, columns = np.nonzero(far <= limit + ROUNDING)
        rows += first
        exact = compute_exact_distances(asked, vectors, rows, columns)
        one, other = queries["number"][rows], references["number"][columns]
        kept = (exact <= limit) & (queries["digest"][rows] != references["digest"][columns])
        pairs = np.empty(int(kept.sum()), PAIR)
        pairs["first"], pairs["second"] = np.minimum(one, other)[kept], np.maximum(one, other)[kept]
        pairs["distance"], pairs["same"] = exact[kept], False
        yield pairs


def keep_best(pairs: NDArray[np.void]) -> NDArray[np.void]:
    """Return pairs PAIR [n] sorted by their numbers, each once, with its smallest distance."""
    ordered = pairs[np.lexsort((pairs["distance"], pairs["second"], pairs["first"]))]
    again = (ordered["first"][1:] == ordered["first"][:-1]) & (ordered["second"][1:] == ordered["second"][:-1])
    return np.asarray(ordered[np.append(True, ~again)[: len(ordered)]])
