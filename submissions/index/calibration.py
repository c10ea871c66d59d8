"""A score threshold for a stated false-alarm rate, from pairs of images that are known to be unrelated.

The tail of unrelated pairs' squared distances is taken to fall off exponentially (peaks over a threshold, the generalised
Pareto distribution with shape 0): far enough out, each unit of distance towards 0 makes a pair rarer by the same factor. A rate
per query that is rarer than any pair seen can then be stated, and it follows the number of references: a query among ten times
as many references has ten times as many chances of a false alarm. Where the true tail is bounded (vectors spread evenly over
the sphere), the exponential one overestimates it: the threshold is then stricter than stated.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from submissions.search.exact import exact_distances

TAIL_SHARE = 0.005  # the nearest pairs that the tail is fitted on
TAIL_LEAST = 100  # but at least so many of them
MOST_REFERENCES = 20_000
QUERY_BLOCK = 256


@dataclass(frozen=True)
class Tail:
    """The exponential tail of the squared distances of unrelated pairs (peaks over a threshold).

    Attributes:
        start: Squared distance below which the tail describes them.
        scale: By how much the pairs below `start` are nearer on average.
        share: Share of all pairs that lie below `start`, 0…1.
        pairs: How many unrelated pairs there were in all.
    """

    start: float
    scale: float
    share: float
    pairs: int

    def threshold(self, rate: float, references: int) -> float:
        """The squared distance below which a query that copies nothing finds a reference with probability `rate` (0…1).

        At most `start`, beyond which the tail says nothing; never below 0.
        """
        wanted = rate / max(references, 1)
        return float(min(self.start, max(0.0, self.start - self.scale * math.log(self.share / wanted))))

    def false_alarms(self, distances: NDArray[np.float64], references: int) -> NDArray[np.float64]:
        """False alarms to expect per query when everything at these squared distances [m] or nearer is taken for a copy."""
        nearer = np.maximum(self.start - distances, 0)
        return references * self.share * np.exp(-nearer / self.scale)


def fit_tail(queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64]) -> Tail:
    """Fit the tail on all pairs of queries and references that are not related.

    Args:
        queries: [n, d] float32.
        references: [m, d] float32.
        own: [n], the row of the reference that a query is related to, −1 for none.

    Raises:
        UserError: There are too few pairs.
    """
    if len(references) > MOST_REFERENCES:
        chosen = np.sort(np.random.default_rng(0).choice(len(references), MOST_REFERENCES, replace=False))
        place = np.full(len(references) + 1, -1)
        place[chosen] = np.arange(MOST_REFERENCES)
        references, own = references[chosen], place[own]
    pairs = len(queries) * len(references) - int((own >= 0).sum())
    kept = max(TAIL_LEAST, int(TAIL_SHARE * pairs))
    if pairs < 2 * kept:
        raise UserError(
            f"a threshold is calibrated on at least {2 * TAIL_LEAST} pairs of unrelated images, there are {pairs}. "
            "Add training images, or name a threshold with --threshold."
        )
    nearest = _nearest(queries, references, own, kept + 1)
    start = float(nearest[-1])
    scale = max(float(start - nearest[:-1].mean()), 1e-9)
    return Tail(start, scale, kept / pairs, pairs)


def _nearest(
    queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """The `count` smallest squared distances of unrelated pairs, in order."""
    columns = np.arange(len(references))
    best = np.zeros(0)
    for first in range(0, len(queries), QUERY_BLOCK):
        block, related = queries[first : first + QUERY_BLOCK], own[first : first + QUERY_BLOCK]
        squares = np.einsum("nd,nd->n", block, block)[:, None] + np.einsum("md,md->m", references, references)
        near = squares - 2 * (block @ references.T)
        near[related[:, None] == columns] = np.inf
        depth = min(count, near.size) - 1
        rows, found = np.nonzero(near <= np.partition(near, depth, axis=None)[depth])
        candidates = near[rows, found] < np.inf
        distances = exact_distances(block, references, rows[candidates], found[candidates])
        best = np.sort(np.concatenate([best, distances]))[:count]
    return best
