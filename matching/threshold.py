"""A score threshold for a stated false-alarm rate, from pairs of images that are known to be unrelated.

The lower tail of unrelated pairs' squared distances is modelled as exponential (peaks over a threshold: the generalised Pareto
distribution with shape 0): each unit of distance towards 0 makes a pair rarer by the same factor. This extrapolates to rates per
query that are rarer than any pair observed. The rate scales with the number of references: among ten times as many references, a
query has ten times as many chances of a false alarm. Where the true tail is bounded (vectors spread evenly over the sphere), the
exponential tail overestimates it, and the threshold is stricter than stated.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.submissions.search.exact import RELATIVE_ROUNDING, compute_exact_distances
from image_copies.submissions.search.references import PAIRS_WORTH_SENDING
from image_copies.submissions.vectors.files import Vectors

TAIL_PAIR_SHARE = 0.005  # share of all pairs that the tail is fitted on: the nearest ones,
MIN_TAIL_PAIRS = 100  # but at least this number of pairs
MAX_REFERENCES = 20_000  # references that the tail is fitted on; of more, a sample of this size
QUERIES_PER_BLOCK = 256  # queries compared with all references at once


@dataclass(frozen=True)
class Tail:
    """The exponential tail of the squared distances of unrelated pairs (peaks over a threshold)."""

    start: float  # squared distance below which the tail applies
    scale: float  # mean of `start` minus the squared distance, over the pairs below `start`
    share: float  # of all pairs below `start`, 0…1
    pairs: int  # number of all unrelated pairs

    def threshold(self, rate: float, references: int) -> float:
        """Return the squared distance below which a query that copies nothing finds a reference with probability `rate`.

        Between 0 and `start`, beyond which the tail does not apply; the rate is between 0 and 1.
        """
        return min(self.start, max(0.0, self.distance(rate, references)))

    def distance(self, alarms: float, references: int) -> float:
        """Return the squared distance up to which so many false alarms are expected per query; it may lie beyond `start`."""
        return float(self.start - self.scale * math.log(self.share * max(references, 1) / alarms))

    def false_alarms(self, distances: NDArray[np.float64], references: int) -> NDArray[np.float64]:
        """Return the expected false alarms per query if all pairs at squared distances [m] or nearer counted as copies: [m].

        Beyond `start` it is the value at `start`.
        """
        nearer = np.maximum(self.start - distances, 0)
        return references * self.share * np.exp(-nearer / self.scale)

    def penalty(self, tries: int) -> float:
        """Return what must be added to a squared distance, the smallest of some tries, for it to be as rare as that of one."""
        return self.scale * math.log(tries)


def fit_tail(queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64]) -> Tail:
    """Fit the tail on all unrelated pairs of queries [n, d] and references [m, d], or a sample of MAX_REFERENCES of them.

    `own` [n] is the row of the reference that each query is related to; −1 for none.

    Raises:
        UserError: There are too few pairs.
    """
    if len(references) > MAX_REFERENCES:
        chosen = np.sort(np.random.default_rng(0).choice(len(references), MAX_REFERENCES, replace=False))
        place = np.full(len(references) + 1, -1)
        place[chosen] = np.arange(MAX_REFERENCES)
        references, own = references[chosen], place[own]
    pairs = len(queries) * len(references) - int((own >= 0).sum())
    kept = max(MIN_TAIL_PAIRS, int(TAIL_PAIR_SHARE * pairs))
    if pairs < 2 * kept:
        raise UserError(
            f"calibration of a threshold needs at least {2 * MIN_TAIL_PAIRS} pairs of unrelated images, but there are {pairs}. "
            "Add training images, or give a threshold with --threshold."
        )
    nearest = _find_nearest_distances(queries, references, own, kept + 1)
    start = float(nearest[-1])
    scale = max(float(start - nearest[:-1].mean()), 1e-9)
    return Tail(start, scale, kept / pairs, pairs)


def fit_tail_of_readable(queries: Vectors, references: Vectors, own: NDArray[np.int64]) -> Tail:
    """Fit the tail on readable images only; `own` [n] is as in `fit_tail`.

    Raises:
        UserError: when there are too few pairs.
    """
    readable = np.flatnonzero(~references.unreadable)
    place = np.full(len(references) + 1, -1)  # the last one stands for "related to none"
    place[readable] = np.arange(len(readable))
    return fit_tail(queries.readable(), references.readable(), place[own[~queries.unreadable]])


def _find_nearest_distances(
    queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return the `count` smallest squared distances of unrelated pairs, float64 [count], ascending; blocks are shards."""
    work = ShardWork(
        name="calibrating the threshold",
        unit="query",
        open=partial(hold, np.ascontiguousarray(references)),
        work=partial(_find_nearest_of_block, count),
        size=_count_queries,
    )
    starts = range(0, len(queries), QUERIES_PER_BLOCK)
    blocks = [(queries[first : first + QUERIES_PER_BLOCK], own[first : first + QUERIES_PER_BLOCK]) for first in starts]
    best = np.zeros(0)
    for distances in run_shards(work, blocks, len(queries), here=len(queries) * len(references) < PAIRS_WORTH_SENDING):
        best = np.sort(np.concatenate([best, distances]))[:count]
    return best


_Queries = tuple[NDArray[np.float32], NDArray[np.int64]]  # vectors [n, d]; row of the reference that each is related to, or −1


def _count_queries(block: _Queries) -> int:
    return len(block[0])


def _find_nearest_of_block(count: int, references: NDArray[np.float32], block: _Queries, place: Place) -> NDArray[np.float64]:
    """Return the `count` smallest squared distances of a block's unrelated pairs, or slightly more, in any order."""
    queries, own = block
    squares = np.einsum("nd,nd->n", queries, queries)[:, None] + np.einsum("md,md->m", references, references)
    near = squares - 2 * (queries @ references.T)
    near[own[:, None] == np.arange(len(references))] = np.inf
    depth = min(count, near.size) - 1
    bound = np.partition(near, depth, axis=None)[depth] + 2 * RELATIVE_ROUNDING * squares.max()  # float32 rounds the products
    rows, found = np.nonzero(near <= bound)
    candidates = near[rows, found] < np.inf
    place.advance(len(queries))
    return compute_exact_distances(queries, references, rows[candidates], found[candidates])
