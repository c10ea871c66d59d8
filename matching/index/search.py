"""The nearest references in a stored index: by exact search or, in a large index, among candidates found by their codes.

The vectors are in memory-mapped files (`segments.py`), with their codes next to them (`codes.py`). Distances are exact in either
case; an approximate search may only miss neighbours that are not among the candidates. On an engine (`data/shards.py`) each block
of queries is searched in each file by itself (`elsewhere.py`), with the same candidates; they are merged, and compared exactly,
in this process.
"""

import hashlib
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.shards import ShardWork, run_shards, uses_engine
from image_copies.matching.index import codes as coding
from image_copies.matching.index.codes import Codes, choose_lists
from image_copies.matching.index.elsewhere import Candidates, Lookup, Opened, OpenedSegments, describe_segment, look_into
from image_copies.matching.index.segments import Segment, open_segments, take_nearest
from image_copies.matching.index.store import Store
from image_copies.matching.threshold import choose_sample
from image_copies.submissions.search.neighbours import PAIRS_WORTH_SENDING, SPARE, rank_exactly

MIN_CANDIDATES = 100  # candidates per query whose exact distances are computed: at least this many,
CANDIDATES_PER_NEIGHBOUR = 10  # and at least this many for each neighbour asked for
LOOKED_UP_TOGETHER = 1024  # queries that an engine looks up in one piece
RANKED_TOGETHER = 128  # queries whose candidates are ranked at once


@dataclass(frozen=True)
class Nearest:
    """The nearest contents of each query."""

    contents: NDArray[np.int64]  # content numbers [n, k], nearest first
    distances: NDArray[np.float64]  # squared [n, k], ascending


@dataclass(frozen=True)
class Neighbours:
    """The searchable vectors of one state of a store."""

    segments: Sequence[Segment]  # in the order of their content numbers
    codes: Sequence[Codes | None]  # None for a segment that is searched exactly
    dimensions: int

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return sum(segment.ntotal for segment in self.segments)

    @property
    def exact(self) -> bool:
        """Whether every content is compared with every query."""
        return all(codes is None for codes in self.codes)

    def nearest(self, queries: NDArray[np.float32], count: int, near: bool = False) -> Nearest:
        """Find the nearest contents of each query, float32 [n, d], with exact distances: `count`, or all of fewer.

        With `near` only copies within the reporting threshold are sought (`search_blocks`).

        Raises:
            UserError: A query or a vector is not finite.
        """
        queries, depth = np.ascontiguousarray(queries, np.float32), min(count, self.ntotal)
        if not np.isfinite(queries).all():
            raise UserError("a query's vector is not finite (NaN or infinite): the checkpoint is probably damaged.")
        if not depth or not len(queries):
            return Nearest(np.full((len(queries), 0), -1), np.zeros((len(queries), 0)))
        blocks = [queries[first : first + LOOKED_UP_TOGETHER] for first in range(0, len(queries), LOOKED_UP_TOGETHER)]
        candidates = np.concatenate([numbers for _, numbers in self.search_blocks(blocks, depth, near)])
        found = []
        for first in range(0, len(queries), RANKED_TOGETHER):
            part = slice(first, first + RANKED_TOGETHER)
            numbers, places = np.unique(candidates[part], return_inverse=True)
            rows = np.where(candidates[part] < 0, -1, places.reshape(candidates[part].shape))
            ranked = rank_exactly(queries[part], self.vectors_of(np.maximum(numbers, 0)), rows, depth)
            found.append(Nearest(numbers[ranked.rows], ranked.values))
        return Nearest(np.concatenate([each.contents for each in found]), np.concatenate([each.distances for each in found]))

    def search_blocks(self, blocks: Sequence[NDArray[np.float32]], k: int, near: bool = False) -> list[Candidates]:
        """Return candidates for the k ≥ 1 nearest contents of each query of blocks [n, d], which an engine searches at once.

        Squared distances float32 [n, m] (approximate for segments with codes) and content numbers int64 [n, m], m ≥ k, nearest
        first; infinity and −1 where there are fewer candidates. With `near` only copies within the reporting threshold are
        sought, which few lists of a large index hold.
        """
        spare = min(k + SPARE, self.ntotal)  # as float32 may rank the last ones otherwise on other processors
        if self.exact:
            return self._search_segments([Lookup(0, block, spare) for block in blocks])
        coded, depth = next(codes for codes in self.codes if codes is not None), max(MIN_CANDIDATES, CANDIDATES_PER_NEIGHBOUR * k)
        found = self._search_segments([Lookup(0, block, depth, choose_lists(coded, block, near)) for block in blocks])
        # the lists searched for these queries hold fewer than k contents
        few = [numbers[:, min(k, self.ntotal) - 1] < 0 for _, numbers in found]
        chosen = [number for number, rows in enumerate(few) if rows.any()]
        exact = self._search_segments([Lookup(0, blocks[number][few[number]], spare) for number in chosen])
        for number, (distances, numbers) in zip(chosen, exact, strict=True):
            width = numbers.shape[1]
            found[number][0][few[number], :width], found[number][1][few[number], :width] = distances, numbers
        return found

    def vectors_of(self, contents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 [m, d] of the contents with these numbers [m]."""
        vectors = np.empty((len(contents), self.dimensions), np.float32)
        owners = np.searchsorted([segment.last for segment in self.segments], contents)
        for owner in np.unique(owners):
            rows, segment = np.flatnonzero(owners == owner), self.segments[owner]
            vectors[rows] = segment.vectors[np.searchsorted(segment.numbers, contents[rows])]
        return vectors

    def sample(self) -> NDArray[np.float32]:
        """Return the vectors [m, d] of a sample of the contents, to which a threshold is fitted."""
        starts = np.cumsum([0, *(len(segment.numbers) for segment in self.segments)])
        chosen = choose_sample(int(starts[-1]))
        rows = [chosen[(chosen >= first) & (chosen < last)] - first for first, last in itertools.pairwise(starts.tolist())]
        kept = [np.setdiff1d(own, segment.gone) for own, segment in zip(rows, self.segments, strict=True)]
        found = [segment.vectors[own] for own, segment in zip(kept, self.segments, strict=True)]
        return np.concatenate([np.zeros((0, self.dimensions), np.float32), *found])

    def numbers(self) -> NDArray[np.int64]:
        """Return all content numbers, in order."""
        return np.concatenate([np.zeros(0, np.int64), *(segment.kept_numbers() for segment in self.segments)])

    def _search_segments(self, asked: Sequence[Lookup]) -> list[Candidates]:
        """Return the nearest candidates of each look-up in all segments."""
        lookups = [
            replace(one, segment=number) for number in range(len(self.segments)) for one in asked
        ]  # file by file: workers then map few at a time
        merged: list[Candidates] = []
        for place, found in enumerate(self._look_up(lookups)):
            if place < len(asked):
                merged.append(found)
            else:
                row = place % len(asked)
                distances = np.concatenate([merged[row][0], found[0]], axis=1)
                numbers = np.concatenate([merged[row][1], found[1]], axis=1)
                merged[row] = take_nearest(distances, numbers, asked[row].count)
        return merged

    def _look_up(self, lookups: Sequence[Lookup]) -> Iterator[Candidates]:
        """Yield the candidates of each look-up: found on the engine, if there is one and they are worth it."""
        pairs = sum(len(lookup) * len(self.segments[lookup.segment].numbers) for lookup in lookups)
        if not uses_engine() or pairs < max(PAIRS_WORTH_SENDING, 1):
            for lookup in lookups:
                yield look_into(self.segments[lookup.segment], self.codes[lookup.segment], lookup)
            return
        work = ShardWork(
            name="searching the index",
            unit="look-up",
            open=partial(OpenedSegments, self._sources),
            work=OpenedSegments.search,
            size=len,
            opened_as=f"index {self._digest}",
        )
        yield from run_shards(work, lookups, sum(map(len, lookups)))

    @cached_property
    def _sources(self) -> list[Callable[[], Opened]]:
        return [describe_segment(segment, coded) for segment, coded in zip(self.segments, self.codes, strict=True)]

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(pickle.dumps(self._sources)).hexdigest()


def open_search(store: Store, exact: bool = False) -> Neighbours:
    """Open the segments, and in a large index the codes unless the search is to be exact; missing files are written first.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        segments = open_segments(store)
    finally:
        if store.database.in_transaction:
            store.database.execute("COMMIT")
    coded: Sequence[Codes | None] = [None] * len(segments)
    if not exact and find_spec("faiss") and sum(segment.ntotal for segment in segments) >= coding.MIN_CODED_CONTENTS:
        coded = coding.open_codes(store.folder, segments)
    return Neighbours(segments, coded, store.dimensions)
