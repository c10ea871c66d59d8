from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.shards import use_engine
from image_copies.submissions.search.exact import _Candidates, compute_exact_distances, search_pairs
from tests.sending import SendingEngine


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
    found = search_pairs(queries, references, count, block)
    assert {(int(q), int(r)) for q, r in zip(found.queries, found.references, strict=True)} == expected
    assert len(found) == len(expected)
    assert (np.diff(found.distances) >= 0).all()
    np.testing.assert_allclose(found.distances, distances[found.queries, found.references], atol=1e-12)


def test_blocks_and_shards_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    queries, references = (rng.integers(0, 4, (n, 5)).astype(np.float32) for n in (30, 101))
    whole = search_pairs(queries, references, 400)
    monkeypatch.setattr("image_copies.submissions.search.exact.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr("image_copies.submissions.search.exact.PAIRS_WORTH_SENDING", 0)
    engine = SendingEngine()
    with use_engine(engine):
        merged = search_pairs(queries, references, 400, 33)
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
    np.testing.assert_array_equal(search_pairs(queries, references, 500, 7).distances, np.sort(exact)[:500])


def test_a_far_vector_changes_neither_the_result_nor_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable images lie 1,000 away in a submission: rounding of their distances must not keep all other pairs."""
    rng = np.random.default_rng(4)
    queries, references = ((rng.standard_normal((n, 16)) / 4).astype(np.float32) for n in (300, 2000))
    queries[7], references[11] = 0, 0
    queries[7, 0], references[11, 0] = 1000, -1000
    held = []
    add = _Candidates.add

    def counted(self: _Candidates, *block: Any) -> None:
        add(self, *block)
        held.append(self._held)

    monkeypatch.setattr(_Candidates, "add", counted)
    found = search_pairs(queries, references, 500, 300)
    exact = ((queries[:, None].astype(np.float64) - references[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found.distances, np.sort(exact.ravel())[:500], atol=1e-12)
    assert max(held) <= 2 * 500
