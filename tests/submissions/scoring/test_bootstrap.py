import numpy as np

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.bootstrap import _RankedQueries, difference_interval, micro_average_precision_interval
from image_copies.submissions.scoring.metrics import RankedPairs, average_precision, rank_pairs
from image_copies.submissions.search.exact import ScoredPairs


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


def test_counting_every_query_once_gives_the_metric_and_twice_the_same() -> None:
    ranked, truth = ranking(0, 0.6)
    queries = _RankedQueries.from_ranking(ranked, truth)
    once = queries.average_precision(np.ones(60, int))
    assert np.isclose(once, average_precision(ranked))
    # doubling all queries doubles every rank and every hit: precision at each true pair is unchanged
    assert np.isclose(queries.average_precision(np.full(60, 2)), once)


def test_a_query_that_is_not_drawn_counts_nothing() -> None:
    ranked, truth = ranking(1, 0.6)
    times = np.ones(60, int)
    times[5] = 0
    keep = [place for place, query in enumerate(ranked.query_ids) if query != "Q5"]
    true = ranked.true[keep]
    expected = (true * np.cumsum(true) / np.arange(1, len(true) + 1)).sum() / 29
    assert np.isclose(_RankedQueries.from_ranking(ranked, truth).average_precision(times), expected)


def test_intervals_hold_the_value_and_tell_better_from_equal() -> None:
    good, truth = ranking(2, 0.3)
    bad, _ = ranking(2, 1.2)
    interval = micro_average_precision_interval(good, truth, draws=300)
    assert interval.low <= interval.value <= interval.high and interval.high - interval.low < 0.5
    better = difference_interval(bad, good, truth, draws=300)
    assert better.low > 0 and np.isclose(better.value, average_precision(good) - average_precision(bad))
    same = difference_interval(good, good, truth, draws=50)
    assert (same.low, same.value, same.high) == (0, 0, 0)
