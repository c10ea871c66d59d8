"""The nearest references in a stored index: by exact search or, in a large index, among candidates found by their codes.

The vectors are in memory-mapped files (`segments.py`), with their codes beside them (`codes.py`). Distances are exact in either
case; an approximate search may only miss neighbours that are not among the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from submissions.index import codes
from submissions.index.segments import Segment, open_segments, search_remaining
from submissions.index.store import Store
from submissions.search.exact import compute_exact_distances

MIN_CANDIDATES = 100  # candidates per query whose exact distances are computed: at least this many,
CANDIDATES_PER_NEIGHBOUR = 10  # and at least this many for each neighbour asked for
QUERIES_PER_BLOCK = 128  # queries whose candidates are ranked at once


class Searchable(Protocol):
    """The methods of an index that `find_nearest` calls; Faiss indexes have them."""

    @property
    def ntotal(self) -> int:
        """Number of vectors."""

    def search(self, x: NDArray[np.float32], k: int) -> Any:
        """Return squared distances and numbers, both [n, m], m ≥ k, of candidates for the k nearest."""

    def reconstruct_batch(self, key: NDArray[np.int64]) -> Any:
        """Return the vectors float32 [m, d] with these numbers [m]."""


@dataclass(frozen=True)
class Nearest:
    """The nearest contents of each query.

    Attributes:
        contents: int64 [n, k], content numbers, nearest first.
        distances: float64 [n, k], squared distances, ascending.
    """

    contents: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True)
class SearchIndex:
    """The searchable vectors of one state of a store.

    Attributes:
        segments: The vectors, in the order of their content numbers.
        codes: The codes of each segment; None for a segment that is searched exactly.
        dimensions: Number d of dimensions of the vectors.
    """

    segments: Sequence[Segment]
    codes: Sequence[faiss.Index | None]
    dimensions: int

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return sum(segment.ntotal for segment in self.segments)

    @property
    def exact(self) -> bool:
        """Whether every content is compared with every query."""
        return all(codes is None for codes in self.codes)

    def search(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return candidates for the k nearest contents of each query.

        Args:
            x: float32 [n, d], the queries.
            k: Number of neighbours asked for, at least 1.

        Returns:
            Squared distances float32 [n, m] (approximate for segments with codes) and content numbers int64 [n, m], m ≥ k,
            nearest first; infinity and −1 where there are fewer candidates.
        """
        if self.exact:
            return self._search_exactly(x, k)
        depth = max(MIN_CANDIDATES, CANDIDATES_PER_NEIGHBOUR * k)
        found = [
            segment.search(x, depth) if coded is None else search_remaining(segment, coded, x, depth)
            for segment, coded in zip(self.segments, self.codes, strict=True)
        ]
        distances, numbers = _merge_nearest(found, depth)
        few = numbers[:, min(k, self.ntotal) - 1] < 0  # the lists searched for these queries hold fewer than k contents
        if few.any():
            near, them = self._search_exactly(x[few], k)
            distances[few, :k], numbers[few, :k] = near, them
        return distances, numbers

    def reconstruct_batch(self, key: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 [m, d] of the contents with these numbers [m]."""
        vectors = np.empty((len(key), self.dimensions), np.float32)
        owners = np.searchsorted([segment.last for segment in self.segments], key)
        for owner in np.unique(owners):
            rows, segment = np.flatnonzero(owners == owner), self.segments[owner]
            vectors[rows] = segment.vectors()[np.searchsorted(segment.numbers, key[rows])]
        return vectors

    def numbers(self) -> NDArray[np.int64]:
        """Return all content numbers, in order."""
        return np.concatenate([np.zeros(0, np.int64), *(segment.kept_numbers() for segment in self.segments)])

    def _search_exactly(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return _merge_nearest([segment.search(x, k) for segment in self.segments], k)


def _merge_nearest(
    found: Sequence[tuple[NDArray[np.float32], NDArray[np.int64]]], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if len(found) == 1:
        return found[0]
    distances, numbers = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(numbers, order, 1)


def open_search(store: Store, exact: bool = False) -> SearchIndex:
    """Open the segments, and in a large index the codes, of the store's present state; missing files are written first.

    Args:
        store: The open index.
        exact: Compare every query with every content, however many there are.

    Returns:
        The index to search.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        segments = open_segments(store)
    finally:
        if store.database.in_transaction:
            store.database.execute("COMMIT")
    coded: Sequence[faiss.Index | None] = [None] * len(segments)
    if not exact and sum(segment.ntotal for segment in segments) >= codes.MIN_CODED_CONTENTS:
        coded = codes.open_codes(store.folder, segments)
    return SearchIndex(segments, coded, store.dimensions)


def find_nearest(index: Searchable, queries: NDArray[np.float32], count: int) -> Nearest:
    """Find the nearest contents of each query, with exact distances.

    Args:
        index: The index to search.
        queries: float32 [n, d].
        count: Number of neighbours per query.

    Returns:
        The nearest contents; k is `count`, or the number of contents in the index if that is smaller.

    Raises:
        UserError: A query or a vector is not finite.
    """
    depth = min(count, index.ntotal)
    if not depth or not len(queries):
        return Nearest(np.full((len(queries), 0), -1), np.zeros((len(queries), 0)))
    queries = np.ascontiguousarray(queries, np.float32)
    _, candidates = index.search(queries, depth)
    found = [
        _rank_exactly(index, queries[first : first + QUERIES_PER_BLOCK], candidates[first : first + QUERIES_PER_BLOCK], depth)
        for first in range(0, len(queries), QUERIES_PER_BLOCK)
    ]
    numbers, distances = (np.concatenate(part) for part in zip(*found, strict=True))
    if (numbers < 0).any():
        raise UserError(
            "the index or a query holds vectors that are not finite (NaN or infinite): the checkpoint is probably damaged. "
            "Add the images again with an intact one."
        )
    return Nearest(numbers, distances)


def _rank_exactly(
    index: Searchable, queries: NDArray[np.float32], candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return numbers and exact squared distances, both [n, count], of the nearest candidates [n, m]; −1 marks no candidate."""
    rows, columns = np.nonzero(candidates >= 0)
    unique, places = np.unique(candidates[rows, columns], return_inverse=True)
    distances = np.full(candidates.shape, np.inf)
    distances[rows, columns] = compute_exact_distances(queries, vectors_of(index, unique), rows, places)
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(candidates, order, 1), np.take_along_axis(distances, order, 1)


def content_numbers(index: SearchIndex) -> NDArray[np.int64]:
    """Return all content numbers of the index, in order."""
    return index.numbers()


def vectors_of(index: Searchable, contents: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors float32 [n, d] of the contents with these numbers [n]."""
    return index.reconstruct_batch(contents)  # type: ignore[no-any-return]  # Faiss's are untyped
