"""The threshold keeps its promise on vectors that the tail was not fitted on, for more references than it was fitted on."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.matching.threshold import Tail, fit_tail


def unit(rng: np.random.Generator, count: int, dimensions: int = 24) -> NDArray[np.float32]:
    vectors = rng.standard_normal((count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_unrelated_queries_raise_no_more_false_alarms_than_stated(rate: float) -> None:
    """Evenly spread vectors have a bounded tail: close to what was seen the rate is met, far out it is not exceeded."""
    rng = np.random.default_rng(1)
    tail = fit_tail(unit(rng, 500), unit(rng, 300), np.full(500, -1))
    queries, references = unit(rng, 4000), unit(rng, 3000)
    nearest = (2 - 2 * queries @ references.T).min(axis=1)
    measured = (nearest <= tail.threshold(rate, 3000)).mean()
    assert measured < 0.75 * rate  # half of the rate is that of the views
    assert measured > rate / 6 or rate < 0.3


def test_related_pairs_are_left_out() -> None:
    rng = np.random.default_rng(2)
    references = unit(rng, 200)
    queries = np.concatenate([references[:100], unit(rng, 100)])
    own = np.concatenate([np.arange(100), np.full(100, -1)])
    clean = fit_tail(queries, references, own)
    polluted = fit_tail(queries, references, np.full(200, -1))
    assert polluted.start < clean.start - 0.1


def test_threshold_and_false_alarms_are_each_others_inverse() -> None:
    tail = Tail(start=1.5, scale=0.1, share=0.005, pairs=10_000, views=Tail(1.4, 0.05, 0.01, 10_000))
    distance = tail.threshold(0.01, 1000)
    assert tail.false_alarms(np.array([distance]), 1000)[0] == pytest.approx(0.01)
    assert tail.threshold(0.01, 10_000) < distance
    assert tail.threshold(1.0, 10) == 1.5  # the tail says nothing beyond its start
    assert tail.threshold(1e-30, 10**9) == 0


def test_a_view_counts_as_the_whole_that_is_as_rare_but_never_as_nearer() -> None:
    tail = Tail(start=1.5, scale=0.1, share=0.005, pairs=10_000, views=(views := Tail(1.3, 0.15, 0.01, 10_000)))
    distance = tail.threshold(0.01, 1000)
    view = tail.as_view(distance, 17)
    assert view < distance == pytest.approx(tail.as_whole(view, 17))
    assert views.false_alarms(np.array([view]), 1000)[0] == pytest.approx(0.01)
    steep = replace(tail, views=Tail(1.4, 0.01, 0.01, 10_000))
    assert steep.as_whole(1.2, 17) == 1.2 and steep.as_view(1.2, 17) == 1.2


def test_too_few_pairs_are_refused() -> None:
    rng = np.random.default_rng(3)
    with pytest.raises(UserError, match="at least 20 unrelated"):
        fit_tail(unit(rng, 10), unit(rng, 10), np.arange(10))
