"""Exact search, shard by shard: the closest pairs of queries and references, and every query's nearest references."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place, ShardWork, hold, run_shards, uses_engine
from image_copies.submissions.search.backend import Metric, Rows, find_candidates, search_block
from image_copies.submissions.vectors.files import RowsShard, VectorRows, divide_rows

REFERENCES_PER_SHARD = 50_000
PAIRS_WORTH_SENDING = 2**28  # a second of one core; with fewer, an engine would cost more than it saves
Found = TypeVar("Found")


def search_references(
    name: str,
    queries: NDArray[np.float32],
    references: VectorRows,
    search: Callable[[NDArray[np.float32], RowsShard, Place], Found],
    divide_here: bool,
) -> Iterator[Found]:
    """Yield what is found in each shard of the references [m, d], in their order, of queries [n, d]; few pairs are compared here.

    References in memory are one shard if this process searches them, unless they are to be divided here too. `name` is for the
    line of progress.
    """
    work = ShardWork(
        name=name,
        unit="reference",
        open=partial(hold, np.ascontiguousarray(queries)),
        work=search,
        size=len,
        uses_gpu=True,
    )
    few = len(queries) * len(references) < PAIRS_WORTH_SENDING
    whole = isinstance(references, np.ndarray) and not divide_here and (few or not uses_engine())
    shards = divide_rows(references, len(references) if whole else REFERENCES_PER_SHARD)
    return run_shards(work, shards, len(references), here=few)


REFERENCES_PER_BLOCK = 16_384
QUERIES_PER_BLOCK = 1024
PAIRS_PER_BLOCK = 2048  # whose vectors, in float64, stay in a core's cache
RELATIVE_ROUNDING = (
    7.5e-6  # bound of float32 rounding of a squared distance, relative to ‖q‖² + ‖r‖²; candidates within it are kept
)


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs as row numbers, nearest first."""

    queries: NDArray[np.int64]  # row numbers [m]
    references: NDArray[np.int64]  # row numbers [m]
    distances: NDArray[np.float64]  # squared Euclidean [m]

    def __len__(self) -> int:
        return len(self.distances)


def search_pairs(
    queries: NDArray[np.float32], references: VectorRows, count: int, block: int = REFERENCES_PER_BLOCK
) -> ScoredPairs:
    """Find the `count` nearest pairs overall, and every further pair that ties with the last; queries [n, d], references [m, d].

    Candidates come from block-wise float32 products, or from the backend in use (`submissions.search.backend`); their distances
    are computed again as Σ (q − r)² in float64, so that the result does not depend on blocks, shards, threads or the device.
    Pairs of equal distance are ordered by row. References of a file are read shard by shard; on an engine (`data.shards`) all
    references are searched in shards. `block`, the references in one product, affects memory only.
    """
    count = min(count, len(queries) * len(references))
    near = ScoredPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    if count == 0:
        return near
    search = partial(_search_shard, count, block)
    for found in search_references("searching pairs", queries, references, search, divide_here=False):
        near = _merge(near, found, count) if len(near) else found
    return near


def _search_shard(count: int, block: int, queries: NDArray[np.float32], shard: RowsShard, place: Place) -> ScoredPairs:
    """Find the nearest pairs of the queries with the references of a shard."""
    references = shard.load()
    count = min(count, len(queries) * len(references))
    query_rows, reference_rows = find_candidates(queries, references, count) or _find_candidates(
        queries, references, count, block
    )
    distances = compute_exact_distances(queries, references, query_rows, reference_rows)
    found = _rank_pairs(query_rows, reference_rows, distances, count)
    place.advance(len(references))
    return ScoredPairs(found.queries, found.references + shard.first, found.distances)


def _merge(near: ScoredPairs, found: ScoredPairs, count: int) -> ScoredPairs:
    """Return the `count` nearest of both, and all that tie with the last."""
    queries, references = np.concatenate([near.queries, found.queries]), np.concatenate([near.references, found.references])
    return _rank_pairs(queries, references, np.concatenate([near.distances, found.distances]), min(count, len(queries)))


def compute_exact_distances(
    queries: NDArray[np.float32],
    references: NDArray[np.float32],
    query_rows: NDArray[np.int64],
    reference_rows: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Compute the squared distances [k] of pairs of queries [n, d] and references [m, d], by rows, as Σ (q − r)² in float64."""
    distances = np.empty(len(query_rows))
    for start in range(0, len(query_rows), PAIRS_PER_BLOCK):
        part = slice(start, start + PAIRS_PER_BLOCK)
        difference = queries[query_rows[part]].astype(np.float64) - references[reference_rows[part]]
        distances[part] = np.einsum("nd,nd->n", difference, difference)
    return distances


def rank_exactly(
    look_up: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    queries: NDArray[np.float32],
    candidates: NDArray[np.int64],
    count: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Find the `count` nearest of each query's candidates by exact distances; of equal ones, those that come first.

    `look_up` returns the vectors float32 [k, d] with these numbers [k]. Queries are float32 [n, d], candidates int64 [n, m],
    numbers of references; −1 for none. Squared distances float64 and numbers int64 are [n, k]; infinity and −1 where there are
    too few candidates.
    """
    rows, columns = np.nonzero(candidates >= 0)
    unique, places = np.unique(candidates[rows, columns], return_inverse=True)
    distances = np.full(candidates.shape, np.inf)
    distances[rows, columns] = compute_exact_distances(queries, look_up(unique), rows, places)
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(candidates, order, 1)


def _find_candidates(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, block: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the candidates on the CPU, as `SearchBackend.candidates` does."""
    rounding = [np.float32(RELATIVE_ROUNDING) * _compute_squares(vectors) for vectors in (queries, references)]
    candidates = _Candidates(count, *rounding)
    for first_query, first_reference, least in _bound_distances(queries, references, block):
        candidates.add(first_query, first_reference, least)
    return candidates.rows()


class _Candidates:
    """Collects the pairs that may be among the `count` nearest; `radius` shrinks as they are added.

    Rounding is bounded for each pair by its own norms, so that one long vector (an unreadable image of a submission) does not
    make every other pair a candidate.
    """

    def __init__(self, count: int, of_queries: NDArray[np.float32], of_references: NDArray[np.float32]) -> None:
        self.count, self.of_queries, self.of_references, self.radius = count, of_queries, of_references, np.float32(np.inf)
        self._kept: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
        self._held = 0

    def add(self, first_query: int, first_reference: int, least: NDArray[np.float32]) -> None:
        """Add a block's pairs; `least` [n, m] float32 are lower bounds of its distances."""
        if self.radius == np.inf and least.size > self.count:  # no pair beyond this block's own nearest can be needed
            near = np.flatnonzero(least <= np.partition(least.ravel(), self.count - 1)[self.count - 1])
            rows, columns = np.divmod(near, least.shape[1])
            self.radius = self._bound_from_above(rows + first_query, columns + first_reference, least.ravel()[near]).max()
        flat = np.flatnonzero(least <= self.radius)
        if not len(flat):
            return
        rows, columns = np.divmod(flat, least.shape[1])
        self._kept.append((rows + first_query, columns + first_reference, least.ravel()[flat]))
        self._held += len(flat)
        if self._held > 2 * self.count:
            self._shrink()

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._held > self.count:
            self._shrink()
        return np.concatenate([kept[0] for kept in self._kept]), np.concatenate([kept[1] for kept in self._kept])

    def _bound_from_above(
        self, queries: NDArray[np.int64], references: NDArray[np.int64], least: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return upper bounds of the distances."""
        return least + 2 * (self.of_queries[queries] + self.of_references[references])

    def _shrink(self) -> None:
        query_rows, reference_rows, least = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        self.radius = np.partition(self._bound_from_above(query_rows, reference_rows, least), self.count - 1)[self.count - 1]
        keep = least <= self.radius
        self._kept = [(query_rows[keep], reference_rows[keep], least[keep])]
        self._held = int(keep.sum())


def _bound_distances(
    queries: NDArray[np.float32], references: NDArray[np.float32], block: int
) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """Yield lower bounds of the squared distances of all pairs, in blocks [≤ QUERIES_PER_BLOCK, ≤ block].

    A block is overwritten by the next. One product of [−2 q, ‖q‖², 1] and [r, 1, ‖r‖²], with the squares reduced by the bound of
    the rounding, yields them without a further pass over the block.
    """
    left = _append_squares(-2 * queries, np.float32(1 - RELATIVE_ROUNDING) * _compute_squares(queries), first=True)
    products = np.empty((min(QUERIES_PER_BLOCK, len(queries)), min(block, len(references))), np.float32)  # one buffer for all
    for first_reference in range(0, len(references), block):
        part = np.ascontiguousarray(references[first_reference : first_reference + block])
        right = _append_squares(part, np.float32(1 - RELATIVE_ROUNDING) * _compute_squares(part), first=False)
        for first_query in range(0, len(queries), QUERIES_PER_BLOCK):
            own = slice(first_query, first_query + QUERIES_PER_BLOCK)
            whole = products.shape == (len(left[own]), len(right))
            yield first_query, first_reference, np.matmul(left[own], right.T, out=products if whole else None)


def _append_squares(vectors: NDArray[np.float32], squares: NDArray[np.float32], first: bool) -> NDArray[np.float32]:
    ones = np.ones_like(squares)
    return np.column_stack([vectors, squares, ones] if first else [vectors, ones, squares])


def _compute_squares(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = np.einsum("nd,nd->n", vectors, vectors)
    return squares


def _rank_pairs(
    query_rows: NDArray[np.int64], reference_rows: NDArray[np.int64], distances: NDArray[np.float64], count: int
) -> ScoredPairs:
    """Return the `count` nearest pairs and all that tie with the last; nearest first, equal distances by row."""
    cut = np.partition(distances, count - 1)[count - 1]
    keep = np.flatnonzero(distances <= cut)
    order = keep[np.lexsort((reference_rows[keep], query_rows[keep], distances[keep]))]
    return ScoredPairs(query_rows[order], reference_rows[order], distances[order])


SPARE = 8  # further neighbours that are searched in float32, so that exact values decide which are the nearest

Nearest = tuple[NDArray[np.float64], Rows]


def search_nearest(
    queries: NDArray[np.float32], references: VectorRows, count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Find each query's `count` nearest references, of queries [n, d] and references [m, d], float32, in memory or in files.

    Candidates come from float32 products (`submissions.search.backend`), shard by shard; their values are computed again in
    float64, and equal ones are ordered by row. Metric and result are those of `search_block`.
    """
    search = partial(_search_nearest_in, count, metric)
    near: Nearest | None = None
    for found in search_references("searching neighbours", queries, references, search, divide_here=True):
        near = found if near is None else _merge_nearest(near, found, count)
    if near is None:
        return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    return (-near[0] if metric == "cosine" else near[0]).astype(np.float32), near[1]


def _search_nearest_in(count: int, metric: Metric, queries: NDArray[np.float32], shard: RowsShard, place: Place) -> Nearest:
    """Return the values to minimise, float64 [n, k], and rows of a shard's references that are nearest to each query."""
    references = shard.load()
    _, rows = search_block(queries, references, min(count + SPARE, len(references)), metric)
    values = np.empty(rows.shape)
    step = max(1, PAIRS_PER_BLOCK // rows.shape[1])
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        near, asked = references[rows[part]].astype(np.float64), queries[part].astype(np.float64)
        if metric == "cosine":
            values[part] = -np.einsum("nd,nkd->nk", asked, near)
        else:
            near -= asked[:, None]
            values[part] = np.einsum("nkd,nkd->nk", near, near)
    order = np.lexsort((rows, values), axis=1)[:, :count]
    place.advance(len(references))
    return np.take_along_axis(values, order, 1), np.take_along_axis(rows, order, 1) + shard.first


def _merge_nearest(near: Nearest, found: Nearest, count: int) -> Nearest:
    """Return the nearest of both, of which `found` has the higher rows."""
    values, rows = (np.concatenate(pair, axis=1) for pair in zip(near, found, strict=True))
    order = np.argsort(values, axis=1, kind="stable")[:, :count]  # stable: equal values stay in the order of their rows
    return np.take_along_axis(values, order, 1), np.take_along_axis(rows, order, 1)
