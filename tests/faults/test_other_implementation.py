"""Scores against another implementation, a literal rewriting of each definition, on 1,000 random cases with ties each."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.faults.harness import Ledger, share_of
from tests.submissions.formats import test_matching_track as matching_track
from tests.submissions.scoring import test_metrics as metrics
from tests.submissions.scoring import test_query_scores as query_scores
from tests.submissions.scoring import test_retrieval as retrieval

pytestmark = pytest.mark.faults
CASES = share_of(1_000)
Draw = Callable[[np.random.Generator], tuple[Any, ...]]  # the arguments after the seed
# what is scored → the quick suite's test of it, whose body compares one case, and how the rest of its arguments are drawn
SCORES: dict[str, tuple[Callable[..., None], Draw]] = {
    "µAP and recall at 90 % precision": (
        metrics.test_scores_equal_the_literal_definition,
        lambda rng: (int(rng.integers(1, 10)), int(rng.integers(2, 41)), int(rng.integers(1, 4)), bool(rng.integers(2))),
    ),
    "recall at rank 1 and 10": (
        metrics.test_recall_at_rank_counts_ties_against_us,
        lambda rng: (int(rng.integers(1, 7)), int(rng.integers(2, 31))),
    ),
    "scores of single queries": (query_scores.test_scores_are_those_of_a_literal_search, lambda rng: ()),
    "Recall@K": (
        retrieval.test_recall_equals_the_literal_definition,
        lambda rng: (int(rng.integers(2, 41)), int(rng.integers(1, 7))),
    ),
    "mAP": (
        retrieval.test_mean_average_precision_equals_the_literal_definition,
        lambda rng: (int(rng.integers(3, 41)), int(rng.integers(1, 6))),
    ),
    "UKB score and IN-aug accuracy": (
        retrieval.test_group_scores_equal_the_literal_definition,
        lambda rng: (int(rng.integers(1, 9)), int(rng.integers(4, 6))),
    ),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_those_of_another_implementation(name: str, ledger: Ledger) -> None:
    test, draw = SCORES[name]
    compare_cases(name, lambda seed: test.hypothesis.inner_test(seed, *draw(np.random.default_rng([1, seed]))), ledger)  # type: ignore[attr-defined]


def test_matching_track_scores_are_those_of_another_implementation(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger
) -> None:
    test = matching_track.test_equals_a_literal_walk_with_ties_duplicates_and_strangers
    compare_cases("µAP of matching-track files", lambda seed: test.hypothesis.inner_test(tmp_path_factory, seed), ledger)  # type: ignore[attr-defined]


def compare_cases(name: str, compare: Callable[[int], None], ledger: Ledger) -> None:
    started, failures = time.monotonic(), []
    for seed in range(CASES):
        try:
            compare(seed)
        except AssertionError as error:
            failures.append(f"seed {seed}: {error}")
    ledger(f"another implementation: {name}", CASES, failures, time.monotonic() - started)
