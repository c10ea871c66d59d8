"""Every figure against a slow literal rewriting of its definition, ties included, and by properties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.models.training.collapse import describe_spread
from image_copies.studies.multigrain.metrics import in_aug_accuracy, mean_average_precision, recall_at, ukb_score
from image_copies.studies.svmax.sets import normalized_mutual_information
from image_copies.submissions.search import neighbours

Case = tuple[NDArray[np.float32], NDArray[np.int64]]
seeds = st.integers(0, 10**6)


def tied_vectors(seed: int, count: int) -> NDArray[np.float32]:
    """Unit vectors with many exact ties: corners of a cube and points on axes, drawn again and again."""
    rng = np.random.default_rng(seed)
    corners = rng.choice([-0.5, 0.5], (count, 4))
    axes = np.eye(4)[rng.integers(4, size=count)]
    return np.where(rng.random((count, 1)) < 0.5, corners, axes).astype(np.float32)


def ranking(similarities: NDArray[np.float32], right: set[int], out: set[int]) -> list[int]:
    """Rows best first; among equals the wrong ones first."""
    rows = [row for row in range(len(similarities)) if row not in out]
    return sorted(rows, key=lambda row: (-float(similarities[row]), row in right))


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(2, 40), st.integers(1, 6))
def test_recall_equals_the_literal_definition(seed: int, count: int, classes: int) -> None:
    vectors, labels = tied_vectors(seed, count), np.random.default_rng(seed).integers(classes, size=count)
    labels[1] = labels[0]
    found = recall_at(vectors, labels, (1, 2, 4, 100))
    for k, value in found.items():
        hits = 0
        for query in range(count):
            right = {row for row in range(count) if labels[row] == labels[query]}
            hits += bool(set(ranking(vectors @ vectors[query], right, {query})[:k]) & right)
        assert value == pytest.approx(hits / count)
    assert found[1] <= found[2] <= found[4] <= found[100]


def literal_average_precision(order: list[int], right: set[int]) -> float:
    """INRIA's evaluation script, step by step."""
    area, true_positives = 0.0, 0
    for rank, row in enumerate(order):
        if row in right:
            precision_before = 1.0 if rank == 0 else true_positives / rank
            area += (precision_before + (true_positives + 1) / (rank + 1)) / len(right) / 2
            true_positives += 1
    return area


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(3, 40), st.integers(1, 5))
def test_mean_average_precision_equals_the_literal_definition(seed: int, count: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, query_vectors = tied_vectors(seed, count), tied_vectors(seed + 1, queries)
    relevant, ignored, expected = [], [], []
    for query in query_vectors:
        shuffled = rng.permutation(count).tolist()
        cut = int(rng.integers(1, count))
        relevant.append(shuffled[:cut])
        ignored.append(shuffled[cut : cut + int(rng.integers(0, 4))])
        expected.append(
            literal_average_precision(ranking(vectors @ query, set(relevant[-1]), set(ignored[-1])), set(relevant[-1]))
        )
    assert mean_average_precision(query_vectors, vectors, relevant, ignored) == pytest.approx(np.mean(expected))


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 8), st.sampled_from([4, 5]))
def test_group_scores_equal_the_literal_definition(seed: int, groups: int, size: int) -> None:
    vectors = tied_vectors(seed, groups * size)
    labels = np.random.default_rng(seed).permutation(np.arange(groups * size) // size)
    total = 0
    for query, label in enumerate(labels):
        right = {row for row in range(len(labels)) if labels[row] == label}
        total += len(set(ranking(vectors @ vectors[query], right, set())[:size]) & right)
    score = ukb_score(vectors, labels) if size == 4 else in_aug_accuracy(vectors, labels)
    assert score == pytest.approx(total / len(labels))


def test_nmi_equals_its_definition_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four points, two clusters {0}, {1, 2, 3}; classes {0, 1}, {2, 3}: I / √(H H'), written out."""
    vectors, labels = np.array([[0.0], [10.0], [10.1], [10.2]]), np.array([0, 0, 1, 1])
    of_clusters, of_classes = -(1 / 4 * np.log(1 / 4) + 3 / 4 * np.log(3 / 4)), np.log(2)
    mutual = sum(p * np.log(p / (q * r)) for p, q, r in ((1 / 4, 1 / 2, 1 / 4), (1 / 4, 1 / 2, 3 / 4), (1 / 2, 1 / 2, 3 / 4)))
    assert normalized_mutual_information(vectors, labels) == pytest.approx(mutual / np.sqrt(of_clusters * of_classes))
    vectors, labels = tied_vectors(1, 40), np.arange(40) // 4
    whole = recall_at(vectors, labels), ukb_score(vectors, labels)
    monkeypatch.setattr(neighbours, "PRODUCTS_PER_BLOCK", 100)
    assert (recall_at(vectors, labels), ukb_score(vectors, labels)) == whole


def test_zero_vectors_match_nothing_and_classes_of_one_have_no_recall() -> None:
    """They don't rank before an answer whose similarity is negative."""
    vectors = np.array([[1.0, 0.0], [-0.6, 0.8], [0.0, 0.0], [0.0, 0.0]], np.float32)
    assert recall_at(vectors, np.array([0, 0, 1, 1]), (1,)) == {1: 0.5}
    assert mean_average_precision(vectors[:1], vectors, [[1]], [[0]]) == 1
    assert mean_average_precision(vectors[:1], vectors, [[2]], [[0]]) < 0.25
    assert ukb_score(np.repeat(vectors[:3:2], 4, axis=0), np.arange(8) // 4) == 2
    with pytest.raises(UserError, match="alone in its class"):
        recall_at(np.eye(4, dtype=np.float32), np.arange(4))


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(1, 20), st.integers(1, 20))
def test_the_mean_singular_value_is_numpys_and_within_its_bounds(seed: int, count: int, dimensions: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions)) * 3
    s, lower, upper = map(float, describe_spread(torch.from_numpy(vectors)).values())
    literal = np.linalg.svd(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), compute_uv=False)
    assert s == pytest.approx(literal.mean(), abs=1e-6)
    assert lower - 1e-6 <= s <= upper + 1e-6
    assert (lower, upper) == pytest.approx((count**0.5 / min(count, dimensions), (count / min(count, dimensions)) ** 0.5))
