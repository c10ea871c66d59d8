"""The nearest references in a stored index: by exact search or, in a large index, among candidates found by their codes.

Distances are exact in either case; an approximate search may only miss neighbours that are not among the candidates.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.matching.index import codes as coding
from image_copies.matching.index.parts import Parts, open_parts
from image_copies.matching.index.store import Store
from image_copies.matching.threshold import choose_sample
from image_copies.submissions.search import neighbours
from image_copies.submissions.search.neighbours import rank_exactly

MIN_CANDIDATES = 100  # candidates per query whose exact distances are computed: at least this many,
CANDIDATES_PER_NEIGHBOUR = 10  # and at least this many for each neighbour asked for


@dataclass(frozen=True)
class Nearest:
    """The nearest contents of each query."""

    contents: NDArray[np.int64]  # content numbers [n, k], nearest first
    distances: NDArray[np.float64]  # squared [n, k], ascending


@dataclass(frozen=True)
class Neighbours:
    """The searchable vectors of one state of a store.

    Attributes:
        parts: The vectors.
        codes: The Faiss index of the codes of the first of them; None to compare every query with all.
    """

    parts: Parts
    codes: Any = None

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.parts.searched)

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return len(self._rows)

    @property
    def exact(self) -> bool:
        """Whether every content is compared with every query."""
        return self.codes is None

    def nearest(self, queries: NDArray[np.float32], count: int, near: bool = False) -> Nearest:
        """Find the nearest contents of each query, float32 [n, d], with exact distances: `count`, or all of fewer.

        With `near` only copies within the reporting threshold are sought, which few lists of a large index hold.

        Raises:
            UserError: A query is not finite.
        """
        queries, count = np.ascontiguousarray(queries, np.float32), min(count, self.ntotal)
        if not np.isfinite(queries).all():
            raise UserError(
                "a query's vector is not finite (NaN or infinite): the checkpoint is probably damaged."
            )
        if self.codes is None or not count:
            found = neighbours.Neighbours(self.parts.rows()).nearest(queries, count)
            return Nearest(self._rows[found.rows] + 1, found.values)
        candidates = self._find_candidates(queries, count, near)
        ranked = rank_exactly(queries, self.parts.take, candidates, count)
        few = np.flatnonzero(ranked.rows[:, -1] < 0)  # the lists searched for these queries hold fewer
        contents, distances = ranked.rows + 1, ranked.values
        if len(few):
            exact = Neighbours(self.parts).nearest(queries[few], count)
            contents[few], distances[few] = exact.contents, exact.distances
        return Nearest(contents, distances)

    def vectors_of(self, contents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 [m, d] of the contents with these numbers [m]."""
        return self.parts.take(contents - 1)

    def sample(self) -> NDArray[np.float32]:
        """Return the vectors [m, d] of a sample of the contents, to which a threshold is fitted."""
        return self.parts.take(self._rows[choose_sample(self.ntotal)])

    def numbers(self) -> NDArray[np.int64]:
        """Return all content numbers, in order."""
        return self._rows + 1

    def _find_candidates(self, queries: NDArray[np.float32], count: int, near: bool) -> NDArray[np.int64]:
        """Return rows [n, m] by the codes, and the nearest of those that have no codes; −1 for none."""
        depth = max(MIN_CANDIDATES, CANDIDATES_PER_NEIGHBOUR * count)
        coded = coding.search_codes(self.codes, queries, depth, near)
        candidates = np.where((coded >= 0) & self.parts.searched[coded], coded, -1)
        fresh = self._rows[np.searchsorted(self._rows, self.codes.ntotal) :]
        nearest = neighbours.Neighbours(self.parts.take(fresh)).nearest(queries, count).rows
        return np.concatenate([candidates, fresh[nearest]], axis=1)


def open_search(store: Store, exact: bool = False) -> Neighbours:
    """Open the vectors, and in a large index the codes unless the search is to be exact; missing files are written first.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        parts = open_parts(store)
        coded = (
            not exact and find_spec("faiss") and np.count_nonzero(parts.searched) >= coding.MIN_CODED_CONTENTS
        )
        return Neighbours(parts, coding.open_codes(store, parts) if coded else None)
    finally:
        if store.database.in_transaction:
            store.database.execute("COMMIT")
