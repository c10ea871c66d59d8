"""The search of an index, and the check of its vectors."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import Store, add_files, keep_queries, open_store, remove_files
from image_copies.pipeline import match
from image_copies.submissions.ensemble.projection import scale_to_unit_length

DIMENSIONS, COUNT = 16, 3000
RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((60, DIMENSIONS), dtype=np.float32)


def draw(count: int) -> NDArray[np.float32]:
    chosen = RNG.integers(0, len(CENTRES), count)
    return scale_to_unit_length(CENTRES[chosen] + 0.5 * RNG.standard_normal((count, DIMENSIONS), dtype=np.float32))


VECTORS = draw(COUNT)
QUERIES = scale_to_unit_length(VECTORS[::30] + 0.05 * RNG.standard_normal((100, DIMENSIONS), dtype=np.float32))


def add(store: Store, rows: range, vectors: NDArray[np.float32] = VECTORS) -> None:
    files = {Path(f"/a/{row}.jpg"): b"%d" % row for row in rows}
    add_files(store, files, {b"%d" % row: vectors[row % COUNT] for row in rows})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An index of 3,000 vectors."""
    with open_store(tmp_path / "index", "extractor", DIMENSIONS) as opened:
        add(opened, range(COUNT))
        yield opened


def test_exact_search_is_that_of_all_distances(store: Store) -> None:
    """Also where a whole neighbourhood is gone."""
    order = np.argsort(((VECTORS - QUERIES[:1]) ** 2).sum(axis=1), kind="stable")
    gone = np.unique(np.concatenate([np.arange(0, COUNT, 61), order[:300]]))
    remove_files(store, [Path(f"/a/{row}.jpg") for row in gone])
    kept = np.setdiff1d(np.arange(COUNT), gone)
    index = open_search(store)
    found = index.nearest(QUERIES, 40)
    distances = ((QUERIES[:, None].astype(np.float64) - VECTORS[None, kept]) ** 2).sum(axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :40]
    assert np.array_equal(found.rows, order) and index.digests == [b"%d" % row for row in kept]
    assert np.allclose(found.values, np.take_along_axis(distances, order, 1), atol=1e-12)


def test_check_finds_damaged_vectors_in_the_database(store: Store) -> None:
    keep_queries(store, {b"query": VECTORS[0]})
    store.database.execute("UPDATE contents SET vector = zeroblob(64) WHERE digest = CAST('query' AS BLOB)")
    with pytest.raises(UserError, match="holds a damaged vector: remove"):
        match.main(["check", "--index", str(store.folder)])
    store.database.execute("UPDATE contents SET vector = zeroblob(64) WHERE content = 7")
    with pytest.raises(UserError, match=r"damaged vector, of .*6\.jpg"):
        match.main(["check", "--index", str(store.folder)])


def test_vectors_that_are_not_finite_are_refused(store: Store) -> None:
    with pytest.raises(UserError, match="not finite"):
        open_search(store).nearest(np.full((1, DIMENSIONS), np.nan, np.float32), 3)
