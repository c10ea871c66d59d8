"""Nearest references in a stored index: exact, or, in a large one, among candidates that codes propose.

The vectors lie in files that are mapped from disk (`segments.py`), the codes beside them (`codes.py`). Distances are exact in
either case; what an approximate search may miss is a neighbour that is no candidate.
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

MIN_CANDIDATES = 100  # of a query that are looked at exactly, at least,
CANDIDATES_PER_NEIGHBOUR = 10  # and so many for each content that is asked for
QUERIES_PER_BLOCK = 128  # queries whose candidates are looked at together


class Searchable(Protocol):
    """What `nearest` needs of an index; Faiss's own have it."""

    @property
    def ntotal(self) -> int:
        """Number of vectors."""

    def search(self, x: NDArray[np.float32], k: int) -> Any:
        """Return squared distances and numbers, both [n, m], m ≥ k, of candidates for the k nearest."""

    def reconstruct_batch(self, key: NDArray[np.int64]) -> Any:
        """Return the vectors [m, d] of these numbers."""


@dataclass(frozen=True)
class Nearest:
    """What is nearest to each query.

    Attributes:
        contents: numbers [n, k].
        distances: squared distances [n, k] float64.
    """

    contents: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True)
class SearchIndex:
    """The vectors of a store's state.

    Attributes:
        segments: the vectors, in the order of their contents' numbers.
        codes: of each segment; None for one that is searched exactly.
        dimensions: d.
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
            x: queries [n, d].
            k: how many are wanted.

        Returns:
            Squared distances, of coded contents approximate ones, and numbers, both [n, m], m ≥ k, nearest first; infinite and −1
            where there are fewer.
        """
        if self.exact:
            return self._search_exactly(x, k)
        depth = max(MIN_CANDIDATES, CANDIDATES_PER_NEIGHBOUR * k)
        found = [
            segment.search(x, depth) if coded is None else search_remaining(segment, coded, x, depth)
            for segment, coded in zip(self.segments, self.codes, strict=True)
        ]
        distances, numbers = _merge_nearest(found, depth)
        few = numbers[:, min(k, self.ntotal) - 1] < 0  # the lists that they looked into hold too little
        if few.any():
            near, them = self._search_exactly(x[few], k)
            distances[few, :k], numbers[few, :k] = near, them
        return distances, numbers

    def reconstruct_batch(self, key: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors [m, d] of these contents."""
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
    """Open the vectors of the store's present state, and what of them has been derived; what is missing is made.

    Args:
        store: the open index.
        exact: compare every content with every query, however many there are.
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
    """Return the `count` nearest contents of each query [n, d] with exact distances, nearest first.

    Raises:
        UserError: a query or a vector is not finite.
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
        raise UserError("the index or a query holds vectors that are not finite: add its images again, with a whole network.")
    return Nearest(numbers, distances)


def _rank_exactly(
    index: Searchable, queries: NDArray[np.float32], candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The `count` nearest of the candidates [n, m] by their exact distances; −1 is none."""
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
    """Return the vectors [n, d] of these contents."""
    return index.reconstruct_batch(contents)  # type: ignore[no-any-return]  # Faiss's are untyped
