"""Bootstrap intervals over queries, for the µAP of one submission and for the difference of two."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import RankedPairs, average_precision

RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % bootstrap interval."""

    value: float  # on all queries
    low: float  # 2.5th percentile of the resamples
    high: float  # 97.5th


def micro_average_precision_interval(ranked: RankedPairs, truth: GroundTruth, seed: int = 0, draws: int = RESAMPLES) -> Interval:
    """Compute µAP with its 95 % interval.

    Each of the resamples draws as many queries as there are, with replacement, and keeps all pairs of each.
    """
    return _estimate_interval(average_precision(ranked), _draw_scores(ranked, truth, seed, draws))


def difference_interval(
    first: RankedPairs, second: RankedPairs, truth: GroundTruth, seed: int = 0, draws: int = RESAMPLES
) -> Interval:
    """Compute µAP of `second` minus µAP of `first` with its 95 % interval, both on the same `draws` resamples of the queries."""
    values = _draw_scores(second, truth, seed, draws) - _draw_scores(first, truth, seed, draws)
    return _estimate_interval(average_precision(second) - average_precision(first), values)


def _draw_scores(ranked: RankedPairs, truth: GroundTruth, seed: int, draws: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    count = len(truth.query_ids)
    queries = _RankedQueries.from_ranking(ranked, truth)
    return np.array([queries.average_precision(rng.multinomial(count, np.full(count, 1 / count))) for _ in range(draws)])


@dataclass(frozen=True)
class _RankedQueries:
    """A ranking reduced to what µAP needs."""

    rows: NDArray[np.int64]  # [m], each ranked pair's query by its number in the ground truth
    true: NDArray[np.bool_]  # [m], whether each ranked pair is a copy
    copies: NDArray[np.int64]  # true pairs of each query [queries]

    @classmethod
    def from_ranking(cls, ranked: RankedPairs, truth: GroundTruth) -> "_RankedQueries":
        row = {query_id: number for number, query_id in enumerate(truth.query_ids)}
        copies = (
            np.bincount([row[query] for query, _ in truth.pairs], minlength=len(row)) if truth.pairs else np.zeros(len(row), int)
        )
        return cls(np.array([row[query_id] for query_id in ranked.query_ids], dtype=np.int64), ranked.true, copies)

    def average_precision(self, times: NDArray[np.int64]) -> float:
        """Compute µAP of a resample that holds query i times[i] times: its ranked and its true pairs count as often."""
        own = times[self.rows].astype(np.float64)
        hits = own * self.true
        found, seen = np.cumsum(hits), np.cumsum(own)
        precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
        true_pairs = float(times @ self.copies)
        return float((hits * precision).sum() / true_pairs) if true_pairs else 0.0


def _estimate_interval(value: float, draws: NDArray[np.float64]) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high))
