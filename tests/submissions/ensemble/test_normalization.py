"""Both methods against a slow literal rewriting of the paper's equations."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.normalization import (
    METHODS,
    count_neighbours_needed,
    find_neighbours,
    normalize_by_variant,
    normalize_queries,
)
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.selection import apply_normalizations
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.settings import Method, NormalizationSettings


def literal(query: np.ndarray, training: np.ndarray, method: str, beta: float, k: int, similar: int = 3) -> np.ndarray:
    query, training = query.astype(np.float64), training.astype(np.float64)
    order = np.argsort(-(training @ query))
    similarity = max(0.0, float(np.mean([training[i] @ query for i in order[:similar]])))  # Eq. 9 and 11
    if method == "method1":
        longer: np.ndarray = query * (1 + beta * np.sqrt(similarity))  # Eq. 10
        return longer
    direction = sum((query - training[i]) / np.linalg.norm(query - training[i]) for i in order[:k]) / k  # Eq. 12
    direction = direction / np.linalg.norm(direction)  # Eq. 13
    moved: np.ndarray = query + beta * np.sqrt(similarity) * direction  # Eq. 14
    return moved


def draw_vectors(rng: np.random.Generator, count: int, dimensions: int, around: float = 0.0) -> np.ndarray:
    """Unit vectors [count, dimensions], around a multiple of the first axis."""
    drawn = rng.standard_normal((count, dimensions)).astype(np.float32)
    drawn[:, 0] += around
    return scale_to_unit_length(drawn)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["method1", "method2"]), st.floats(0.1, 3), st.integers(3, 20))
def test_methods_equal_the_equations(seed: int, method: Method, beta: float, k: int) -> None:
    """The first query is far from all training vectors: its mean cosine is below 0."""
    rng = np.random.default_rng(seed)
    queries, training = draw_vectors(rng, 5, 8), draw_vectors(rng, 40, 8, around=3)
    queries[0] = -training.mean(axis=0)
    queries = scale_to_unit_length(queries)
    neighbours = find_neighbours(queries, training, k)
    moved = normalize_queries(queries, training, neighbours, method, beta, NormalizationSettings(direction_neighbours=k))
    for row, query in enumerate(queries):
        np.testing.assert_allclose(moved[row], literal(query, training, method, beta, k), atol=2e-4)


def test_none_and_zero_rows_stay() -> None:
    training = draw_vectors(np.random.default_rng(1), 30, 4)
    queries = np.concatenate([training[:1], np.zeros((1, 4), np.float32)])
    neighbours = find_neighbours(queries, training, 10)
    settings = NormalizationSettings(direction_neighbours=10)
    assert normalize_queries(queries, training, neighbours, "none", 0, settings) is queries
    moved = normalize_queries(queries, training, neighbours, "method2", 1.8, settings)
    assert np.isfinite(moved).all() and not moved[1].any()  # row 0 equals a training vector: no division by zero


@pytest.mark.parametrize("method", ["none", "method1", "method2"])
@pytest.mark.parametrize(("similar", "k"), [(3, 12), (12, 3), (5, 5)])
def test_each_mean_has_its_own_neighbours(method: Method, similar: int, k: int) -> None:
    """More neighbours for the similarity than for the direction leave Eq. 12 as it is; every way to normalise agrees."""
    rng = np.random.default_rng(4)
    queries, training = (draw_vectors(rng, n, 8) for n in (5, 40))
    settings = NormalizationSettings(methods=method, similarity_neighbours=similar, direction_neighbours=k, beta1=0.9, beta2=0.9)
    moved = normalize_by_variant(queries, training, Variant(8, 0.0, method, 0.9), settings)
    expected = queries if method == "none" else [literal(query, training, method, 0.9, k, similar) for query in queries]
    np.testing.assert_allclose(moved, expected, atol=2e-5)
    ((_, _, candidate),) = apply_normalizations(queries, training, settings)
    np.testing.assert_array_equal(candidate, moved)
    both = NormalizationSettings(**settings.model_dump(exclude={"methods"}), methods=("none", "method1", "method2"))
    by_method = {found: vectors for found, _, vectors in apply_normalizations(queries, training, both)}
    np.testing.assert_allclose(by_method[method], moved if method != "none" else queries, atol=1e-6)
    assert count_neighbours_needed(settings, method) == {"none": 0, "method1": similar, "method2": max(similar, k)}[method]


def test_a_method_is_one_row_of_the_table_with_a_label_and_vectors_of_its_own() -> None:
    assert tuple(METHODS) == get_args(Method)
    assert len({row.label for row in METHODS.values()}) == len(METHODS)
    queries, training = (draw_vectors(np.random.default_rng(7), count, 8) for count in (5, 200))
    results = {method: moved.tobytes() for method, _, moved in apply_normalizations(queries, training, NormalizationSettings())}
    assert results.keys() == METHODS.keys() and len(set(results.values())) == len(METHODS)


def test_neighbours_that_were_not_searched_or_do_not_exist_are_missed() -> None:
    training = np.eye(4, dtype=np.float32)
    with pytest.raises(ValueError, match=r"method2 needs 100 neighbours, but 2 were found"):
        normalize_queries(training, training, find_neighbours(training, training, 2), "method2", 1, NormalizationSettings())
    with pytest.raises(UserError, match=r"needs 100 training neighbours, but there are only 7"):
        find_neighbours(np.eye(4, dtype=np.float32), np.ones((7, 4), np.float32), 100)
