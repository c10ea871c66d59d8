"""µAP against a slow literal rewriting of the definition, ties included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import evaluate, recall_at_precision
from image_copies.submissions.vectors.files import Vectors


def vectors(prefix: str, values: np.ndarray) -> Vectors:
    return Vectors([f"{prefix}{i}" for i in range(len(values))], values.astype(np.float32), np.zeros(len(values), bool))


def literal_scores(queries: Vectors, references: Vectors, truth: GroundTruth) -> tuple[float, float]:
    """The definition word by word: all pairs, the N nearest, false before true among equals, walk down the list."""
    rows = []
    for query_id in truth.query_ids:
        query = queries.vectors[queries.ids.index(query_id)].astype(np.float64)
        for reference_id, reference in zip(references.ids, references.vectors, strict=True):
            distance = float(np.sum((query - reference.astype(np.float64)) ** 2))
            rows.append((distance, (query_id, reference_id) in truth.pairs))
    rows.sort()
    found, area, at_90 = 0, 0.0, 0.0
    for rank, (_, true) in enumerate(rows[: 10 * len(truth.query_ids)], start=1):
        found += true
        if true:
            area += found / rank / len(truth.pairs)
        if found / rank >= 0.9:
            at_90 = found / len(truth.pairs)
    return area, at_90


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(2, 40), st.integers(1, 3), st.booleans())
def test_scores_equal_the_literal_definition(seed: int, n_queries: int, n_references: int, levels: int, extra: bool) -> None:
    rng = np.random.default_rng(seed)  # few levels and dimensions make many ties
    queries = vectors("Q", rng.integers(0, levels + 1, (n_queries + extra, 3)))
    references = vectors("R", rng.integers(0, levels + 1, (n_references, 3)))
    named = [f"Q{i}" for i in rng.permutation(n_queries)]
    pairs = {(query, f"R{rng.integers(n_references)}") for query in named if rng.random() < 0.7} or {(named[0], "R0")}
    truth = GroundTruth(named, frozenset(pairs))
    scores, ranked = evaluate(queries, references, truth)
    area, at_90 = literal_scores(queries, references, truth)
    assert scores.micro_average_precision == pytest.approx(area, abs=1e-9)
    assert scores.recall_at_precision_90 == pytest.approx(at_90, abs=1e-9)
    assert len(ranked.true) == min(10 * n_queries, n_queries * n_references)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 30))
def test_recall_at_rank_counts_ties_against_us(seed: int, n_queries: int, n_references: int) -> None:
    rng = np.random.default_rng(seed)
    queries = vectors("Q", rng.integers(0, 3, (n_queries, 2)))
    references = vectors("R", rng.integers(0, 3, (n_references, 2)))
    pairs = frozenset((f"Q{i}", f"R{rng.integers(n_references)}") for i in range(n_queries))
    scores, _ = evaluate(queries, references, GroundTruth(queries.ids, pairs))
    for rank, value in ((1, scores.recall_at_rank_1), (10, scores.recall_at_rank_10)):
        hits = 0
        for query_id, reference_id in pairs:
            query, true = queries.vectors[queries.ids.index(query_id)], references.vectors[references.ids.index(reference_id)]
            limit = ((query - true) ** 2).sum()
            others = [
                r
                for r, v in zip(references.ids, references.vectors, strict=True)
                if (query_id, r) not in pairs and ((query - v) ** 2).sum() <= limit
            ]
            hits += len(others) < rank
        assert value == pytest.approx(hits / len(pairs))


def test_a_precision_that_is_just_reached_counts_and_unreadable_images_match_nothing() -> None:
    references, truth = vectors("R", np.array([[0, 0], [3, 0], [4, 0]])), GroundTruth(["Q0"], frozenset({("Q0", "R1")}))
    _, ranked = evaluate(vectors("Q", np.array([[1, 0]])), references, truth)  # R0, which is no copy, is nearer than R1
    assert recall_at_precision(ranked, 0.5) == 1 and recall_at_precision(ranked, 0.51) == 0
    queries, references = vectors("Q", np.eye(3)), vectors("R", np.eye(3))
    truth = GroundTruth(["Q0", "Q1", "Q2"], frozenset({("Q0", "R0"), ("Q1", "R1")}))
    marked = Vectors(references.ids, references.vectors, np.array([True, False, False]))
    scores, ranked = evaluate(queries, marked, truth)
    assert "R0" not in ranked.reference_ids
    assert scores.recall_at_rank_1 == 0.5


def test_ids_that_the_submission_lacks_are_named_and_copies_are_no_wrong_references() -> None:
    parts = vectors("Q", np.eye(2)), vectors("R", np.eye(2))
    with pytest.raises(UserError, match="1 queries that the submission lacks, the first is 'Q9'"):
        evaluate(*parts, GroundTruth(["Q0", "Q9"], frozenset()))
    with pytest.raises(UserError, match="1 references that the submission lacks, the first is 'R7'"):
        evaluate(*parts, GroundTruth(["Q0"], frozenset({("Q0", "R7")})))
    queries = Vectors(["Q"], np.zeros((1, 1), np.float32) + 1, np.zeros(1, bool))
    references = Vectors(["A", "B", "C"], np.array([[1], [1.5], [3]], np.float32), np.zeros(3, bool))
    scores, _ = evaluate(queries, references, GroundTruth(["Q"], frozenset({("Q", "A"), ("Q", "B")})))
    assert scores.recall_at_rank_1 == 1
