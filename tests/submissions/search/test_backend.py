"""Few pairs, and all pairs where Faiss is not installed, are compared by NumPy with what Faiss finds."""

import faiss
import numpy as np
import pytest

from image_copies.submissions.search import backend
from image_copies.submissions.search.backend import Metric, search_on_cpu


@pytest.mark.parametrize("metric", ["cosine", "distance"])
@pytest.mark.parametrize(("queries", "references", "count"), [(1, 1, 1), (7, 300, 12), (50, 9, 9), (0, 5, 2)])
def test_numpy_finds_what_faiss_finds(
    metric: Metric, queries: int, references: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(queries)
    asked, held = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (queries, references))
    monkeypatch.setattr(backend, "PRODUCTS_PER_BLOCK", 700)  # several blocks
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    monkeypatch.setattr(backend, "MIN_PAIRS_FOR_FAISS", 0)
    values, rows = search_on_cpu(asked, held, count, metric)
    expected = faiss.knn(asked, held, count, metric=faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2)
    assert np.array_equal(rows, expected[1]) and np.allclose(values, expected[0], atol=1e-4) and values.dtype == np.float32


def test_faiss_is_taken_for_many_pairs_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, called = np.eye(4, dtype=np.float32), list[int]()

    def count(asked: object, held: object, count: int, metric: int) -> tuple[None, None]:
        called.append(count)
        return None, None

    monkeypatch.setattr(faiss, "knn", count)
    search_on_cpu(vectors, vectors, 1, "distance")
    assert not called
    monkeypatch.setattr(backend, "MIN_PAIRS_FOR_FAISS", 16)
    search_on_cpu(vectors, vectors, 1, "distance")
    assert called == [1]


def test_a_vector_that_is_not_finite_is_nobody_s_neighbour() -> None:
    vectors = np.eye(3, dtype=np.float32)
    vectors[1, 0] = np.nan
    _, rows = search_on_cpu(vectors, vectors, 3, "distance")
    assert rows.tolist() == [[0, 2, -1], [-1, -1, -1], [2, 0, -1]]
