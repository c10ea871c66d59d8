from pathlib import Path

import numpy as np
import pytest

from image_copies.submissions.search.backend import Metric
from image_copies.submissions.search.exact import search_nearest
from image_copies.submissions.vectors.files import open_vectors, write_vectors


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
    monkeypatch.setattr("image_copies.submissions.search.exact.REFERENCES_PER_SHARD", 13)
    found, rows = search_nearest(queries, references, 6, metric)
    np.testing.assert_allclose(-found if metric == "cosine" else found, expected, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(values, rows, 1), expected, rtol=0, atol=1e-12)
    near = np.take_along_axis(values, rows, 1)
    assert all((near[:, n] < near[:, n + 1])[q] or rows[q, n] < rows[q, n + 1] for n in range(5) for q in range(20))


def test_a_file_is_searched_like_its_readable_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    vectors, unreadable = rng.standard_normal((100, 4)).astype(np.float32), rng.random(100) < 0.2
    unreadable[26:39] = True  # a shard without any
    vectors[unreadable] = 0
    write_vectors(tmp_path / "v.h5", [str(row) for row in range(100)], [vectors], unreadable)
    monkeypatch.setattr("image_copies.submissions.search.exact.REFERENCES_PER_SHARD", 13)
    rows = open_vectors(tmp_path / "v.h5").readable()
    assert len(rows) == (~unreadable).sum() and sum(map(len, rows.divide(13))) == len(rows) and len(rows.divide(13)) == 7
    found, expected = (search_nearest(vectors[:9], among, 7, "cosine") for among in (rows, vectors[~unreadable]))
    assert found[0].tobytes() == expected[0].tobytes() and (found[1] == expected[1]).all()
