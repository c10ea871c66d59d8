"""A score threshold for a stated false-alarm rate, from queries that are known to copy none of the references.

Of each such query the nearest reference counts. The lower tail of these squared distances is modelled as exponential (peaks over
a threshold: the generalised Pareto distribution with shape 0): each unit of distance towards 0 makes a query rarer by the same
factor. This extrapolates to rates that are rarer than any query observed. The rate scales with the number of references: among
ten times as many references, a query has ten times as many chances of a false alarm. Where the true tail is bounded (vectors
spread evenly over the sphere), the exponential tail overestimates it, and the threshold is stricter than stated.

A picture and its views share the rate: half of the false alarms are the picture's, half its views'.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.submissions.search.neighbours import Neighbours
from image_copies.submissions.vectors.files import Vectors

TAIL_SHARE = 0.2  # share of the queries that the tail is fitted on: those that are nearest to a reference
MIN_QUERIES = 20  # fewest queries that a tail is fitted on
MAX_QUERIES = MAX_REFERENCES = 20_000  # that the tail is fitted on; of more, samples of this size
SHARES = 2  # parts of the rate: the picture's own and that of its views


@dataclass(frozen=True)
class Tail:
    """The exponential tail of the squared distances of queries that copy nothing (peaks over a threshold)."""

    start: float  # squared distance below which the tail applies
    scale: float  # mean of `start` minus the squared distance, over the queries below `start`
    share: float  # of the queries below `start`, 0…1, for each reference
    pairs: int  # number of all unrelated pairs
    views: "Tail | None" = None  # of the nearest of a query's views; None where it was not fitted
    # fits the tail to references [m, d], if it can be
    refit: "Callable[[NDArray[np.float32]], Tail] | None" = None

    def against(self, references: Callable[[], NDArray[np.float32]]) -> "Tail":
        """Return the tail fitted to references [m, d], which are read only if it can be."""
        return self if self.refit is None else self.refit(references())

    def threshold(self, rate: float, references: int) -> float:
        """Return the squared distance below which a query that copies nothing, or a view, finds one with probability `rate`.

        Between 0 and `start`, beyond which the tail does not apply; the rate is between 0 and 1.
        """
        return min(self.start, max(0.0, self.distance(rate, references)))

    def distance(self, alarms: float, references: int) -> float:
        """Return the squared distance up to which so many false alarms are expected per query; it may lie beyond `start`."""
        return float(self.start - self.scale * math.log(SHARES * self.share * max(references, 1) / alarms))

    def false_alarms(self, distances: NDArray[np.float64], references: int) -> NDArray[np.float64]:
        """Return the expected false alarms per query if squared distances [m], or those of views as rare, were copies: [m].

        Beyond `start` it is the value at `start`.
        """
        nearer = np.maximum(self.start - distances, 0)
        return SHARES * references * self.share * np.exp(-nearer / self.scale)

    def as_whole(self, distance: float, views: int) -> float:
        """Return what a squared distance of one of so many views counts as: the whole's that is as rare, never less."""
        return max(distance, self._equate(distance, self._of_views(views)))

    def as_view(self, distance: float, views: int) -> float:
        """Return the squared distance of a view that counts as this one (`as_whole`)."""
        return min(distance, self._of_views(views)._equate(distance, self))

    def _of_views(self, views: int) -> "Tail":
        """Return the tail of the nearest of so many views; where none was fitted, each is as a query of its own."""
        return self.views or replace(self, share=self.share * views)

    def _equate(self, distance: float, other: "Tail") -> float:
        """Return the squared distance that is as rare in this tail as one in another, without bounds."""
        return self.start - self.scale * (
            math.log(self.share / other.share) + (other.start - distance) / other.scale
        )


def fit_tail(queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64]) -> Tail:
    """Fit the tail on queries [n, d] and references [m, d], or on samples of them.

    `own` [n] is the row of the reference that each query is related to; −1 for none.

    Raises:
        UserError: There are too few queries or references.
    """
    rows = choose_sample(len(queries), MAX_QUERIES)
    queries, own = queries[rows], own[rows]
    if len(references) > MAX_REFERENCES:
        chosen, place = choose_sample(len(references), MAX_REFERENCES), np.full(len(references) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        references, own = references[chosen], place[own]
    if len(queries) < MIN_QUERIES or len(references) < 2:
        raise UserError(
            f"calibration of a threshold needs at least {MIN_QUERIES} unrelated images, but there are {len(queries)}, which are "
            f"compared with {len(references)}. Add training images, or give a threshold with --threshold."
        )
    return fit_minima(find_minima(queries, references, own), len(references), TAIL_SHARE)


def fit_minima(minima: NDArray[np.float64], references: int, share: float) -> Tail:
    """Fit the tail on so many of the squared distances [n] of queries to the nearest of so many references."""
    ordered = np.sort(minima)
    kept = max(MIN_QUERIES // 4, round(share * len(ordered)))
    start = float(ordered[kept])
    scale = max(float(start - ordered[:kept].mean()), 1e-9)
    return Tail(start, scale, kept / len(ordered) / references, len(ordered) * references)


def fit_tail_of_readable(queries: Vectors, references: Vectors, own: NDArray[np.int64]) -> Tail:
    """Fit the tail on readable images only; `own` [n] is as in `fit_tail`.

    Raises:
        UserError: There are too few queries or references.
    """
    readable = np.flatnonzero(~references.unreadable)
    place = np.full(len(references) + 1, -1)  # the last one stands for "related to none"
    place[readable] = np.arange(len(readable))
    return fit_tail(queries.readable(), references.readable(), place[own[~queries.unreadable]])


def find_minima(
    queries: NDArray[np.float32], references: NDArray[np.float32], own: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the squared distances of queries [n, d] to the nearest of references [m, d] but their `own`: [n]."""
    found = Neighbours(references).nearest(queries, 2)
    if own is None:
        return found.values[:, 0]
    return np.where(found.rows[:, 0] == own, found.values[:, -1], found.values[:, 0])


def choose_sample(count: int, most: int = MAX_REFERENCES) -> NDArray[np.int64]:
    """Return at most so many [n] of `count` rows, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
