import numpy as np

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import (
    RankedPairs,
    average_precision,
    difference_interval,
    micro_average_precision_interval,
    rank_pairs,
)
from image_copies.submissions.search.neighbours import ScoredPairs


def ranking(seed: int, noise: float) -> tuple[RankedPairs, GroundTruth]:
    rng = np.random.default_rng(seed)
    ids = [f"Q{i}" for i in range(60)]
    truth = GroundTruth(ids, frozenset((f"Q{i}", f"R{i}") for i in range(30)))
    pairs = [(q, r) for q in range(60) for r in rng.choice(60, 8, replace=False)] + [(q, q) for q in range(30)]
    distances = np.array([(0.0 if q == r and q < 30 else 1.0) + noise * rng.standard_normal() for q, r in pairs])
    order = np.argsort(distances)
    rows = np.array(pairs)[order]
    found = ScoredPairs(rows[:, 0], rows[:, 1], distances[order])
    return rank_pairs(found, ids, [f"R{i}" for i in range(60)], truth), truth


def test_intervals_hold_the_value_and_tell_better_from_equal() -> None:
    good, truth = ranking(2, 0.3)
    bad, _ = ranking(2, 1.2)
    interval = micro_average_precision_interval(good, truth, draws=300)
    assert interval.low <= interval.value <= interval.high and interval.high - interval.low < 0.5
    better = difference_interval(bad, good, truth, draws=300)
    assert better.low > 0 and np.isclose(better.value, average_precision(good) - average_precision(bad))
    same = difference_interval(good, good, truth, draws=50)
    assert (same.low, same.value, same.high) == (0, 0, 0)


def draw_population(rng: np.random.Generator, queries: int) -> tuple[RankedPairs, GroundTruth]:
    """Every second query is a copy, whose true reference scores one standard deviation more than false ones do on average."""
    ids = [f"Q{row}" for row in range(queries)]
    copies = range(0, queries, 2)
    rows = np.concatenate([np.arange(queries), copies])
    is_true = np.arange(len(rows)) >= queries
    scores = rng.standard_normal(len(rows)) + is_true
    order = np.argsort(-scores)
    found = ScoredPairs(rows[order], np.where(is_true, rows, queries + rows)[order], -scores[order])
    truth = GroundTruth(ids, frozenset((f"Q{row}", f"R{row}") for row in copies))
    return rank_pairs(found, ids, [f"R{row}" for row in range(2 * queries)], truth), truth


def average_precision_of_resample(ranked: RankedPairs, truth: GroundTruth, drawn: list[str]) -> float:
    """µAP of a resample that is written out: each query as often as it was drawn, its pairs next to each other as ties."""
    copied = {query for query, _ in truth.pairs}
    hits = seen = precisions = 0.0
    for query, true in zip(ranked.query_ids, ranked.true.tolist(), strict=True):
        times = drawn.count(query)
        hits, seen = hits + times * true, seen + times
        precisions += times * true * (hits / seen if seen else 0.0)
    return precisions / sum(query in copied for query in drawn)


def test_the_interval_holds_95_of_100_resamples_that_are_written_out() -> None:
    ranked, truth = draw_population(np.random.default_rng(0), 40)
    rng = np.random.default_rng(1)
    drawn = (rng.choice(truth.query_ids, len(truth.query_ids)).tolist() for _ in range(3000))
    values = sorted(average_precision_of_resample(ranked, truth, queries) for queries in drawn)
    interval = micro_average_precision_interval(ranked, truth, draws=3000)
    assert np.isclose(interval.low, values[75], atol=0.01) and np.isclose(interval.high, values[-76], atol=0.01)
    assert abs(values[150] - values[75]) > 0.012 and abs(values[-76] - values[-151]) > 0.012  # 90 of 100 are distinguished
