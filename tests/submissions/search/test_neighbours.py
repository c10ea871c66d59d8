"""The search is exact: the nearest pairs and neighbours and all that tie, whatever blocks, shards and library."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.shards import use_engine
from image_copies.submissions.search import neighbours
from image_copies.submissions.search.neighbours import CPU, Metric, Neighbours, Processor, compute_exact_distances, use_device
from image_copies.submissions.vectors.files import open_vectors, write_vectors
from tests.sending import SendingEngine


class Blocks(Processor):
    """The CPU with blocks of another size."""

    def __init__(self, size: int) -> None:
        self.blocks = size, size


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 50), st.integers(1, 400), st.integers(1, 60), st.booleans())
def test_the_nearest_pairs_and_all_that_tie(seed: int, n: int, m: int, count: int, block: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    make = (lambda size: rng.integers(0, 3, size)) if ties else rng.standard_normal
    queries, references = make((n, 4)).astype(np.float32), make((m, 4)).astype(np.float32)
    difference = queries[:, None].astype(np.float64) - references[None]
    distances = (difference**2).sum(axis=2)
    cut = np.sort(distances.ravel())[min(count, n * m) - 1]
    expected = {(int(q), int(r)) for q, r in zip(*np.nonzero(distances <= cut), strict=True)}
    with use_device(Blocks(block)):
        found, near = Neighbours(references).closest(queries, count), Neighbours(references).within(queries, cut * (1 + 1e-9))
    pairs = set(zip(near.queries.tolist(), near.references.tolist(), strict=True))
    assert pairs == expected and len(near) == len(pairs) and near.queries.tolist() == sorted(near.queries.tolist())
    assert {(int(q), int(r)) for q, r in zip(found.queries, found.references, strict=True)} == expected
    assert len(found) == len(expected)
    assert (np.diff(found.distances) >= 0).all()
    np.testing.assert_allclose(found.distances, distances[found.queries, found.references], atol=1e-12)


def test_blocks_and_shards_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    queries, references = (rng.integers(0, 4, (n, 5)).astype(np.float32) for n in (30, 101))
    whole = Neighbours(references).closest(queries, 400)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.PAIRS_WORTH_SENDING", 0)
    engine = SendingEngine()
    with use_engine(engine), use_device(Blocks(33)):
        merged = Neighbours(references).closest(queries, 400)
    assert engine.works
    assert merged.distances.tobytes() == whole.distances.tobytes()
    assert (merged.queries == whole.queries).all() and (merged.references == whole.references).all()


def test_rounding_never_loses_a_pair() -> None:
    """Thousands of nearly equal distances around the cut: the exact ones decide."""
    rng = np.random.default_rng(3)
    base = rng.standard_normal(64).astype(np.float32)
    queries = base + 1e-4 * rng.standard_normal((40, 64)).astype(np.float32)
    references = base + 1e-4 * rng.standard_normal((60, 64)).astype(np.float32)
    exact = compute_exact_distances(queries, references, *np.indices((40, 60)).reshape(2, -1))
    with use_device(Blocks(7)):
        np.testing.assert_array_equal(Neighbours(references).closest(queries, 500).distances, np.sort(exact)[:500])
        limit = float(np.median(exact))
        found = Neighbours(references).within(queries, limit)
    assert sorted(found.distances) == sorted(exact[exact <= limit])


def test_a_far_vector_changes_neither_the_result_nor_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable images lie 1,000 away in a submission: rounding of their distances must not keep all other pairs."""
    rng = np.random.default_rng(4)
    queries, references = ((rng.standard_normal((n, 16)) / 4).astype(np.float32) for n in (300, 2000))
    queries[7], references[11] = 0, 0
    queries[7, 0], references[11, 0] = 1000, -1000
    compared = []

    def counted(*given: Any) -> Any:
        compared.append(len(given[-1]))
        return compute_exact_distances(*given)

    monkeypatch.setattr(neighbours, "compute_exact_distances", counted)
    with use_device(Blocks(300)):
        found = Neighbours(references).closest(queries, 500)
    exact = ((queries[:, None].astype(np.float64) - references[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found.distances, np.sort(exact.ravel())[:500], atol=1e-12)
    assert max(compared) <= 2 * 500


@pytest.mark.parametrize("metric", ["cosine", "distance"])
@pytest.mark.parametrize("kind", ["tied", "apart", "almost equal"])
def test_the_nearest_by_exact_values_and_then_by_row(metric: Metric, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the almost equal ones, products in float32 rank some otherwise."""
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((20, 64)).astype(np.float32)
    drawn = rng.integers(0, 3, (60, 64)) if kind == "tied" else rng.standard_normal((60, 64))
    references = (1 + 3e-7 * drawn if kind == "almost equal" else drawn).astype(np.float32)
    exact = queries.astype(np.float64) @ references.T.astype(np.float64)
    values = -exact if metric == "cosine" else ((queries[:, None].astype(np.float64) - references) ** 2).sum(2)
    expected = np.sort(values, axis=1)[:, :6]
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 13)
    near = Neighbours(references).nearest(queries, 6, metric)
    found, rows = near.values, near.rows
    np.testing.assert_allclose(-found if metric == "cosine" else found, expected, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(values, rows, 1), expected, rtol=0, atol=1e-12)
    away = np.take_along_axis(values, rows, 1)
    assert all((away[:, n] < away[:, n + 1])[q] or rows[q, n] < rows[q, n + 1] for n in range(5) for q in range(20))


def test_a_file_is_searched_like_its_readable_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    vectors, unreadable = rng.standard_normal((100, 4)).astype(np.float32), rng.random(100) < 0.2
    unreadable[26:39] = True  # a shard without any
    vectors[unreadable] = 0
    write_vectors(tmp_path / "v.h5", [str(row) for row in range(100)], [vectors], unreadable)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 13)
    rows = open_vectors(tmp_path / "v.h5").readable()
    assert len(rows) == (~unreadable).sum() and sum(map(len, rows.divide(13))) == len(rows) and len(rows.divide(13)) == 7
    found, expected = (Neighbours(among).nearest(vectors[:9], 7, "cosine") for among in (rows, vectors[~unreadable]))
    assert found.values.tobytes() == expected.values.tobytes() and (found.rows == expected.rows).all()


@pytest.mark.parametrize("metric", ["cosine", "distance"])
@pytest.mark.parametrize(("queries", "references", "count"), [(1, 1, 1), (7, 300, 12), (50, 9, 9), (0, 5, 2)])
def test_numpy_finds_what_faiss_finds(
    metric: Metric, queries: int, references: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(queries)
    asked, held = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (queries, references))
    monkeypatch.setattr(neighbours, "PRODUCTS_PER_BLOCK", 700)  # several blocks
    monkeypatch.setattr(neighbours, "find_spec", lambda name: None)
    monkeypatch.setattr(neighbours, "MIN_PAIRS_FOR_FAISS", 0)
    rows = CPU.nearest(asked, held, count, metric)
    expected = faiss.knn(asked, held, count, metric=faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2)[1]
    assert np.array_equal(np.sort(rows), np.sort(expected))


def test_faiss_is_taken_for_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, called = np.eye(4, dtype=np.float32), list[int]()

    def count(asked: object, held: object, count: int, metric: int) -> tuple[None, None]:
        called.append(count)
        return None, None

    monkeypatch.setattr(faiss, "knn", count)
    CPU.nearest(vectors, vectors, 1, "distance")
    assert not called
    monkeypatch.setattr(neighbours, "MIN_PAIRS_FOR_FAISS", 16)
    CPU.nearest(vectors, vectors, 1, "distance")
    assert called == [1]
