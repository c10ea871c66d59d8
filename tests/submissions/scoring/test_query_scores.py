"""Scores of true pairs and best wrong references, against a slow literal search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import group_scores, score_queries
from image_copies.submissions.vectors.files import Vectors


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_scores_are_those_of_a_literal_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, r = (int(number) for number in rng.integers(1, 9, 2))
    queries = Vectors([f"Q{i}" for i in range(q)], rng.standard_normal((q, 3)).astype(np.float32), rng.random(q) < 0.2)
    references = Vectors([f"R{i}" for i in range(r)], rng.standard_normal((r, 3)).astype(np.float32), rng.random(r) < 0.2)
    for part in (queries, references):
        part.vectors[part.unreadable] = 0
    named = queries.ids[: max(1, q - 2)]
    truth = GroundTruth(named, frozenset((query, f"R{rng.integers(r)}") for query in named if rng.random() < 0.6))
    found = score_queries(queries, references, truth)
    true, wrong = dict[tuple[str, str], float](), dict[str, tuple[str, float]]()
    for row, query in enumerate(queries.ids):
        for column, reference in enumerate(references.ids):
            if query not in named or queries.unreadable[row] or references.unreadable[column]:
                continue
            score = -float(((queries.vectors[row].astype(np.float64) - references.vectors[column]) ** 2).sum())
            if (query, reference) in truth.pairs:
                true[query, reference] = score
            elif query not in wrong or score > wrong[query][1]:
                wrong[query] = (reference, score)
    assert {pair: round(score, 9) for pair, score in found.true.items()} == {p: round(s, 9) for p, s in true.items()}
    assert {query: name for query, (name, _) in found.best_wrong.items()} == {query: name for query, (name, _) in wrong.items()}
    assert all(np.isclose(found.best_wrong[query][1], score) for query, (_, score) in wrong.items())
    groups = group_scores(found, truth)
    copying = {query for query, _ in truth.pairs}
    assert len(groups.true_copies) == len(true)
    assert (len(groups.best_wrong), len(groups.distractors)) == (len(copying & set(wrong)), len(set(wrong) - copying))


def test_several_copies_of_a_query_are_none_of_its_wrong_references() -> None:
    queries = Vectors(["Q"], np.zeros((1, 1), np.float32) + 1, np.zeros(1, bool))
    references = Vectors(["A", "B", "C"], np.array([[1], [1.5], [3]], np.float32), np.zeros(3, bool))
    found = score_queries(queries, references, GroundTruth(["Q"], frozenset({("Q", "A"), ("Q", "B")})))
    assert found.true == {("Q", "A"): 0.0, ("Q", "B"): -0.25} and found.best_wrong == {"Q": ("C", -4.0)}
