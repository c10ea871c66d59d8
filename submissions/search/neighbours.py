"""Vectors that are near others, exact including ties: products in float32 leave few candidates, which are compared in float64.

The products are computed by NumPy and Faiss, or on another device that the caller supplies. Few pairs are compared by NumPy,
which is as fast and need not be imported; so are all where Faiss is not installed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Literal, Protocol, TypeVar

import numpy as np

from image_copies.data.arrays import Bools, Float32s, Float64s, Int64s
from image_copies.data.shards import Place, ShardWork, hold, run_shards, uses_engine

from ..vectors.files import RowsShard, VectorRows, divide_rows

Metric = Literal["cosine", "distance"]  # inner product, highest first; squared distance, lowest first
Rows = Int64s
# rows of queries and of references, lower bounds of squared distances
Candidates = tuple[Rows, Rows, Float32s]
Found = TypeVar("Found")

MIN_PAIRS_FOR_FAISS = 2**22  # pairs of vectors, below which importing Faiss takes longer than the products
PRODUCTS_PER_BLOCK = 2**24  # that NumPy holds at once, float32
REFERENCES_PER_SHARD = 50_000
PAIRS_WORTH_SENDING = 2**28  # a second of one core; with fewer, an engine would cost more than it saves
PAIRS_PER_BLOCK = 2048  # whose vectors, in float64, stay in a core's cache
# further neighbours that are searched in float32, so that exact values decide which are the nearest
SPARE = 8
MIN_ROUNDING = 7.5e-6  # of a squared distance in float32, relative to ‖q‖² + ‖r‖²


class Device(Protocol):
    """Computes products, for example on a GPU; each method returns None where its memory does not suffice.

    Attributes:
        blocks: Numbers of queries and of references that `within` is given at once.
    """

    blocks: tuple[int, int]

    def nearest(self, queries: Float32s, references: Float32s, count: int, metric: Metric) -> Rows | None:
        """Return the rows [n, count] of the references [m, d] nearest to each query [n, d] as float32 has it, in any order."""

    def within(self, queries: Float32s, references: Float32s, limit: float, most: int) -> Candidates | None:
        """Return all pairs of queries [n, d] and references [m, d] whose lower bound is at most `limit`, each once, in any order.

        The bound is the squared distance less the error of its rounding (`bound_rounding`). Without a limit, infinity, these are
        the `most` pairs whose bounds are lowest.
        """


class Processor:
    """The CPU as a device, which always suffices."""

    blocks = 1024, 16_384

    def nearest(self, queries: Float32s, references: Float32s, count: int, metric: Metric) -> Rows:
        """See `Device.nearest`; many pairs are compared by Faiss, few by NumPy."""
        if len(queries) * len(references) < MIN_PAIRS_FOR_FAISS or find_spec("faiss") is None:
            return _find_nearest(queries, references, count, metric)
        import faiss

        kind = faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2
        rows: Rows = faiss.knn(
            np.ascontiguousarray(queries), np.ascontiguousarray(references), count, metric=kind
        )[1]
        return rows

    def within(self, queries: Float32s, references: Float32s, limit: float, most: int) -> Candidates:
        """See `Device.within`: one product of [−2 q, ‖q‖², 1] and [r, 1, ‖r‖²], without a further pass over the block."""
        share = np.float32(1 - bound_rounding(queries.shape[1]))
        left = np.column_stack(
            [-2 * queries, share * sum_squares(queries), np.ones(len(queries), np.float32)]
        )
        right = np.column_stack(
            [references, np.ones(len(references), np.float32), share * sum_squares(references)]
        )
        least = left @ right.T
        if limit == np.inf and most < least.size:
            limit = np.partition(least.ravel(), most - 1)[most - 1]
        near = np.flatnonzero(least <= np.float32(limit))
        rows, columns = np.divmod(near, len(references))
        return rows, columns, least.ravel()[near]


CPU = Processor()
NOTHING = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)  # no pairs
_devices: list[Device] = []


def device_in_use() -> Device | None:
    """Return the device that the caller supplies, if there is one."""
    return _devices[-1] if _devices else None


@contextmanager
def use_device(device: Device) -> Iterator[None]:
    """Search on `device` inside the `with` block, in all threads."""
    _devices.append(device)
    try:
        yield
    finally:
        _devices.remove(device)


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs as row numbers."""

    queries: Rows  # [m]
    references: Rows  # [m]
    distances: Float64s  # squared Euclidean [m]

    def __len__(self) -> int:
        return len(self.distances)

    def take(self, chosen: Int64s | Bools) -> "ScoredPairs":
        """Return some of the pairs."""
        return ScoredPairs(self.queries[chosen], self.references[chosen], self.distances[chosen])


@dataclass(frozen=True)
class Nearest:
    """The nearest references of each query, the nearest first; equal ones by row."""

    values: Float64s  # cosines or squared distances [n, k]
    rows: Rows  # [n, k]


@dataclass(frozen=True)
class Neighbours:
    """References [m, d], float32, in memory or in files, in which neighbours of queries [n, d] are searched.

    Files are read shard by shard, and an engine (`data.shards`) searches the shards of many references. The values of all pairs
    that are found are computed again in float64: they depend on no block, shard, thread or device.
    """

    references: VectorRows

    def nearest(self, queries: Float32s, count: int, metric: Metric = "distance") -> Nearest:
        """Find the `count` references nearest to each query, or all of fewer."""
        near = Nearest(np.zeros((len(queries), 0)), np.zeros((len(queries), 0), np.int64))
        search = partial(_search_nearest, count, metric)
        for found in self._search("searching neighbours", queries, search, REFERENCES_PER_SHARD):
            values = np.hstack([near.values, found.values])
            rows = np.hstack([near.rows, found.rows])
            # stable: equal values stay in the order of their rows
            order = np.argsort(values, axis=1, kind="stable")[:, :count]
            near = Nearest(np.take_along_axis(values, order, 1), np.take_along_axis(rows, order, 1))
        return Nearest(-near.values, near.rows) if metric == "cosine" else near

    def within(self, queries: Float32s, limit: float) -> ScoredPairs:
        """Find all pairs up to a squared distance, ordered by query and reference."""
        found = list(
            self._search("searching pairs", queries, partial(_search_within, limit), REFERENCES_PER_SHARD)
        )
        pairs = _join(found)
        return pairs.take(np.lexsort((pairs.references, pairs.queries)))

    def closest(self, queries: Float32s, count: int) -> ScoredPairs:
        """Find the `count` nearest pairs of all, and every further one that ties with the last; equal ones by row."""
        near = _join([])
        few = len(queries) * len(self.references) < PAIRS_WORTH_SENDING
        whole = isinstance(self.references, np.ndarray) and (few or not uses_engine())
        shard = len(self.references) if whole else REFERENCES_PER_SHARD
        for found in (
            self._search("searching pairs", queries, partial(_search_closest, count), shard)
            if count
            else ()
        ):
            near = _rank_pairs(_join([near, found]), count)
        return near

    def _search(
        self,
        name: str,
        queries: Float32s,
        search: Callable[[Float32s, RowsShard, Place], Found],
        size: int,
    ) -> Iterator[Found]:
        """Yield what is found of queries in shards of so many references, in their order; few pairs are compared here."""
        work = ShardWork(
            name=name,
            unit="reference",
            open=partial(hold, np.ascontiguousarray(queries)),
            work=search,
            size=len,
            uses_gpu=True,
        )
        few = len(queries) * len(self.references) < PAIRS_WORTH_SENDING
        return run_shards(
            work, divide_rows(self.references, size) if len(queries) else [], len(self.references), here=few
        )


def compute_exact_distances(
    queries: Float32s, references: Float32s, query_rows: Rows, reference_rows: Rows
) -> Float64s:
    """Compute the squared distances [k] of pairs of queries [n, d] and references [m, d], by rows, as Σ (q − r)² in float64."""
    distances = np.empty(len(query_rows))
    for start in range(0, len(query_rows), PAIRS_PER_BLOCK):
        part = slice(start, start + PAIRS_PER_BLOCK)
        difference = queries[query_rows[part]].astype(np.float64) - references[reference_rows[part]]
        distances[part] = np.einsum("nd,nd->n", difference, difference)
    return distances


def rank_exactly(
    queries: Float32s,
    take: Callable[[Rows], Float32s],
    candidates: Rows,
    count: int,
    metric: Metric = "distance",
) -> Nearest:
    """Return the `count` nearest of each query's candidates [n, m] by values to minimise, which are computed in float64.

    `take` returns the vectors [..., d] of rows. −1 stands for no candidate: its value is infinite, and it comes last.
    """
    values = np.empty(candidates.shape)
    step = max(1, PAIRS_PER_BLOCK // max(1, candidates.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        near, asked = (
            take(np.maximum(candidates[part], 0)).astype(np.float64),
            queries[part].astype(np.float64),
        )
        if metric == "cosine":
            values[part] = -np.einsum("nd,nkd->nk", asked, near)
        else:
            near -= asked[:, None]
            values[part] = np.einsum("nkd,nkd->nk", near, near)
    values[candidates < 0] = np.inf
    order = np.lexsort((candidates, values), axis=1)[:, :count]
    return Nearest(np.take_along_axis(values, order, 1), np.take_along_axis(candidates, order, 1))


def iterate_distances(
    queries: Float32s, references: Float32s, metric: Metric
) -> Iterator[tuple[int, Float32s]]:
    """Yield how far all references [m, d] are from some queries of [n, d], float32 [≤ n, m], and the first one's number.

    That is the negative cosine, or the squared distance as float32 has it; the arrays are the caller's.
    """
    squares = sum_squares(references)
    step = max(1, PRODUCTS_PER_BLOCK // max(1, len(references)))
    for first in range(0, len(queries), step):
        asked = queries[first : first + step]
        away = -(asked @ references.T)
        if metric == "distance":
            away = np.maximum(sum_squares(asked)[:, None] + squares + 2 * away, 0)
        yield first, away


def bound_rounding(dimensions: int) -> float:
    """Bound the error of a squared distance from float32 products, relative to ‖q‖² + ‖r‖², for any order of summation."""
    return max(MIN_ROUNDING, (dimensions + 8) * 2.0**-24)


def sum_squares(vectors: Float32s) -> Float32s:
    """Return ‖v‖² of vectors [n, d], float32 [n]."""
    squares: Float32s = np.einsum("nd,nd->n", vectors, vectors)
    return squares


def _find_nearest(queries: Float32s, references: Float32s, count: int, metric: Metric) -> Rows:
    """Compare all with all, block by block."""
    rows = np.empty((len(queries), count), np.int64)
    for first, away in iterate_distances(queries, references, metric):
        every = np.broadcast_to(np.arange(len(references)), away.shape)
        near = every if count == len(references) else np.argpartition(away, count - 1, axis=1)[:, :count]
        rows[first : first + len(away)] = near
    return rows


def _search_nearest(
    count: int, metric: Metric, queries: Float32s, shard: RowsShard, place: Place
) -> Nearest:
    """Return the values to minimise, and the rows, of a shard's references that are nearest to each query."""
    references = shard.load()
    depth = min(count + SPARE, len(references))
    device = device_in_use()
    rows = None if device is None else device.nearest(queries, references, depth, metric)
    if rows is None:
        rows = CPU.nearest(queries, references, depth, metric)
    near = rank_exactly(queries, references.__getitem__, rows, count, metric)
    place.advance(len(references))
    return Nearest(near.values, near.rows + shard.first)


def _search_within(limit: float, queries: Float32s, shard: RowsShard, place: Place) -> ScoredPairs:
    """Return the pairs of the queries with the references of a shard that are within a squared distance."""
    references, found = shard.load(), list[ScoredPairs]()
    for asked, block, first in _divide(queries, references):
        pairs = _compare_within(asked, block, limit, 0)
        near = pairs.take(pairs.distances <= limit)
        found.append(
            ScoredPairs(near.queries + first[0], near.references + first[1] + shard.first, near.distances)
        )
    place.advance(len(references))
    return _join(found)


def _search_closest(count: int, queries: Float32s, shard: RowsShard, place: Place) -> ScoredPairs:
    """Return the nearest pairs of the queries with the references of a shard, and all that tie with the last.

    A radius within which there are so many pairs shrinks from block to block. Rounding is bounded for each pair by its own norms,
    so that one long vector (an unreadable image of a submission) does not make every other pair a candidate.
    """
    references = shard.load()
    error = np.float32(2 * bound_rounding(queries.shape[1]))
    radius = np.inf
    kept, held = list[ScoredPairs](), 0
    for asked, block, first in _divide(queries, references):
        # no pair beyond this block's own nearest can be needed
        if radius == np.inf and len(asked) * len(block) > count:
            rows, columns, least = _find_within(asked, block, radius, count)
            radius = float((least + error * (sum_squares(asked)[rows] + sum_squares(block)[columns])).max())
        found = _compare_within(asked, block, radius, count)
        kept.append(ScoredPairs(found.queries + first[0], found.references + first[1], found.distances))
        held += len(found)
        if held > 2 * count:
            kept = [_rank_pairs(_join(kept), count)]
            held = len(kept[0])
            radius = float(kept[0].distances[-1])
    near = _rank_pairs(_join(kept), count)
    place.advance(len(references))
    return ScoredPairs(near.queries, near.references + shard.first, near.distances)


def _compare_within(queries: Float32s, references: Float32s, limit: float, most: int) -> ScoredPairs:
    """Return what `Device.within` finds in two blocks, some pairs beyond the limit among it, with exact distances."""
    rows, columns, _ = _find_within(queries, references, limit, most)
    return ScoredPairs(rows, columns, compute_exact_distances(queries, references, rows, columns))


def _divide(
    queries: Float32s, references: Float32s
) -> Iterator[tuple[Float32s, Float32s, tuple[int, int]]]:
    """Yield blocks of queries and references, as the device in use takes them, and the numbers of their first rows."""
    size = (device_in_use() or CPU).blocks
    for first in range(0, len(references), size[1]):
        block = np.ascontiguousarray(references[first : first + size[1]])
        for start in range(0, len(queries), size[0]):
            yield queries[start : start + size[0]], block, (start, first)


def _find_within(queries: Float32s, references: Float32s, limit: float, most: int) -> Candidates:
    """Do what `Device.within` does, with the device in use."""
    device = device_in_use()
    found = None if device is None else device.within(queries, references, limit, most)
    return CPU.within(queries, references, limit, most) if found is None else found


def _join(parts: Sequence[ScoredPairs]) -> ScoredPairs:
    columns = zip(
        NOTHING, *((part.queries, part.references, part.distances) for part in parts), strict=True
    )
    return ScoredPairs(*(np.concatenate(column) for column in columns))


def _rank_pairs(pairs: ScoredPairs, count: int) -> ScoredPairs:
    """Return the `count` nearest pairs and all that tie with the last; nearest first, equal distances by row."""
    if len(pairs) > count:
        pairs = pairs.take(pairs.distances <= np.partition(pairs.distances, count - 1)[count - 1])
    return pairs.take(np.lexsort((pairs.references, pairs.queries, pairs.distances)))
