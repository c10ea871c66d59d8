"""Vectors in files of bounded size, and approximate search by their codes: nothing is lost, nothing is rewritten without need."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.matching.extractor import Extractor
from image_copies.matching.index import codes
from image_copies.matching.index import search as searching
from image_copies.matching.index.search import Neighbours, open_search
from image_copies.matching.index.store import Store, add_files, keep_queries, open_store, remove_files
from image_copies.matching.matches import Rule
from image_copies.matching.search import Search
from image_copies.matching.threshold import Tail
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline import match
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.neighbours import Nearest

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


def names(store: Store, pattern: str) -> set[str]:
    return {path.name for path in store.folder.glob(pattern)}


def assert_same(one: Nearest, other: Nearest) -> None:
    assert np.array_equal(one.rows, other.rows) and np.array_equal(one.values, other.values)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An index of 3,000 vectors in files of 1,000 each."""
    for module, name, value in (
        (searching, "CONTENTS_PER_FILE", 1000),
        (searching, "MIN_NEW_CONTENTS", 50),
        (codes, "MIN_CODED_CONTENTS", 500),
        (codes, "MIN_UNCODED", 50),
    ):
        monkeypatch.setattr(module, name, value)
    with open_store(tmp_path / "index", "extractor", DIMENSIONS) as opened:
        add(opened, range(COUNT))
        yield opened


def test_approximate_search_finds_what_exact_search_does_with_exact_distances(store: Store) -> None:
    approximate, exact = open_search(store), open_search(store, exact=True)
    assert not approximate.exact and exact.exact and approximate.ntotal == exact.ntotal == COUNT
    assert len(names(store, "vectors-*")) == 3 and len(names(store, "codes-*")) == 1
    found, true = approximate.nearest(QUERIES, 10), exact.nearest(QUERIES, 10)
    hit = [len(set(one) & set(other)) / 10 for one, other in zip(found.rows.tolist(), true.rows.tolist(), strict=True)]
    assert np.mean(hit) >= 0.95
    assert np.array_equal(found.rows[:, 0], true.rows[:, 0])
    distances = ((exact.take(found.rows.ravel() - 1).astype(np.float64) - np.repeat(QUERIES, 10, axis=0)) ** 2).sum(axis=1)
    assert np.allclose(found.values.ravel(), distances, atol=1e-12)
    assert np.array_equal(exact.take(np.flatnonzero(exact.searched)), VECTORS)
    for near in (True, False):
        rows = codes.search_codes(approximate.codes, QUERIES, 100, near)
        assert all(len(set(own)) == len(own) for row in rows.tolist() if (own := [one for one in row if one >= 0]))


def count_lists(index: Neighbours) -> int:
    """Return how many lists the codes have, both the same number."""
    both: list[Any] = [faiss.downcast_index(one) for one in (index.codes.base_index, index.codes.refine_index)]
    (count,) = {int(one.nlist) for one in both}
    return count


def test_copies_are_found_in_few_of_the_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matches are those of the exact search, and of one that looks into most lists."""
    monkeypatch.setattr(codes, "PROBED_LISTS", 5)
    monkeypatch.setattr(codes, "PROBED_LISTS_POWER", 0)
    looked_into, search_codes = list[int](), codes.search_codes

    def note_lists(index: Any, *given: Any) -> NDArray[np.int64]:
        rows = search_codes(index, *given)
        opened: Any = faiss.downcast_index(index.base_index if given[-1] else index.refine_index)
        looked_into.append(opened.nprobe)
        return rows

    monkeypatch.setattr(codes, "search_codes", note_lists)
    tail, limit = Tail(start=0.5, scale=0.1, share=1e-3, pairs=1000), 0.15
    extractor = Extractor([], EmbeddingSettings(), lambda vectors: vectors, DIMENSIONS, "extractor")
    found = []
    for lookup in (
        Search(store, extractor, Rule(None, replace(tail, share=tail.share * 1e-3), 0.001, 10)),
        Search(store, extractor, Rule(None, tail, 0.5, 10)),
        Search(store, extractor, Rule(-limit, None, 0.001, 10)),
        Search(store, extractor, Rule(-limit, None, 0.001, 10), exact=True),
    ):
        near = lookup.near(QUERIES, [b""] * len(QUERIES))
        found.append([[match.reference for match in matches if match.score >= -limit] for matches in near])
    assert all(found[0]) and found[0] == found[1] == found[2] == found[3]
    lists = count_lists(open_search(store))
    assert lists == COUNT // codes.TRAINING_VECTORS_PER_LIST and set(looked_into) == {5, lists // 2}


def test_hardly_a_copy_is_lost_with_the_lists_that_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors without any clusters, which scatter over many lists, and copies as far away as a threshold lets them be."""
    monkeypatch.setattr(codes, "MIN_CODED_CONTENTS", 500)
    rng, dimensions, count, distance = np.random.default_rng(1), 64, 24_000, 0.9
    vectors = scale_to_unit_length(rng.standard_normal((count, dimensions), dtype=np.float32))
    noise = scale_to_unit_length(rng.standard_normal((400, dimensions), dtype=np.float32))
    queries = scale_to_unit_length(vectors[:400] + np.sqrt(distance) * noise)
    with open_store(tmp_path / "index", "extractor", dimensions) as store:
        add_files(store, {}, {b"%d" % row: vector for row, vector in enumerate(vectors)})
        index = open_search(store)
        assert count_lists(index) > 300
        found = index.nearest(queries, 10, near=True)
        exact = open_search(store, exact=True).nearest(queries, 10)
    at_first = exact.rows[:, 0]
    lost = [first not in contents for first, contents in zip(at_first.tolist(), found.rows.tolist(), strict=True)]
    assert np.mean(lost) < 0.02


def test_neighbours_at_any_distance_are_looked_for_as_widely_behind_excluded_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "PROBED_LISTS", 0)
    monkeypatch.setattr(codes, "PROBED_LIST_SHARE", 1.0)
    order = np.argsort(((QUERIES[:, None] - VECTORS[None]) ** 2).sum(axis=2), axis=1)
    names = [b"query %d" % row for row in range(len(QUERIES))]
    pairs = zip(names, order[:, :30].tolist(), strict=True)
    rejected = {frozenset((name, b"%d" % row)): False for name, nearest in pairs for row in nearest}
    extractor = Extractor([], EmbeddingSettings(), lambda vectors: vectors, DIMENSIONS, "extractor")
    rule = Rule(None, None, 0.001, 10)
    found = [
        [
            [match.reference for match in matches]
            for matches in Search(store, extractor, rule, rejected, candidates=10, exact=exact).near(QUERIES, names)
        ]
        for exact in (True, False)
    ]
    assert all(len(one) == 10 for one in found[0]) and found[1] == found[0]


def test_rows_of_what_is_gone_do_not_stand_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are zero, and nearer to a query than other vectors are."""
    monkeypatch.setattr(codes, "MIN_CODED_CONTENTS", 500)
    monkeypatch.setattr(codes, "MIN_UNCODED", 50)
    vectors = scale_to_unit_length(np.random.default_rng(2).standard_normal((COUNT, 64), dtype=np.float32))
    with open_store(tmp_path / "index", "extractor", 64) as store:
        add(store, range(2000), vectors)
        open_search(store)
        add(store, range(2000, COUNT), vectors)
        remove_files(store, [Path(f"/a/{row}.jpg") for row in range(2000, COUNT - 100)])
        index = open_search(store)
        found = codes.search_codes(index.codes, -vectors[:100], 100, near=False)
    assert index.codes.ntotal == COUNT and index.searched[found[found >= 0]].mean() > 0.5


def test_lists_grow_with_the_root_of_the_contents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "LISTS_PER_ROOT", 0.5)
    lists = round(0.5 * COUNT**0.5)
    assert count_lists(open_search(store)) == lists
    before = names(store, "codes-*")
    add(store, range(COUNT, 3 * COUNT))
    assert count_lists(open_search(store)) == lists and names(store, "codes-*").isdisjoint(before)
    add(store, range(3 * COUNT, 5 * COUNT))
    index = open_search(store)
    assert count_lists(index) == round(0.5 * (5 * COUNT) ** 0.5) and index.codes.ntotal == 5 * COUNT
    assert len(names(store, "codes-*")) == 1 and len(names(store, "vectors-*")) == 15


def test_exact_search_in_several_files_is_that_of_all_distances(store: Store) -> None:
    """Also where a whole neighbourhood is gone."""
    order = np.argsort(((VECTORS - QUERIES[:1]) ** 2).sum(axis=1), kind="stable")
    gone = np.unique(np.concatenate([np.arange(0, COUNT, 61), order[:300]]))
    remove_files(store, [Path(f"/a/{row}.jpg") for row in gone])
    kept = np.setdiff1d(np.arange(COUNT), gone)
    found = open_search(store, exact=True).nearest(QUERIES, 40)
    distances = ((QUERIES[:, None].astype(np.float64) - VECTORS[None, kept]) ** 2).sum(axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :40]
    assert np.array_equal(found.rows, kept[order] + 1)
    assert np.allclose(found.values, np.take_along_axis(distances, order, 1), atol=1e-12)


def test_what_is_added_or_removed_rewrites_no_other_file(store: Store) -> None:
    add(store, range(COUNT, COUNT + 500), scale_to_unit_length(draw(COUNT)))
    open_search(store)
    before = names(store, "[cv]*-*")
    add(store, range(COUNT + 500, COUNT + 530))
    remove_files(store, [Path(f"/a/{row}.jpg") for row in range(40)])
    index = open_search(store)
    assert index.ntotal == COUNT + 490 and names(store, "[cv]*-*") == before
    assert index.nearest(VECTORS[510:511], 1).rows[0, 0] == 511  # added again as content COUNT + 511
    add(store, range(COUNT + 530, COUNT + 600))
    index = open_search(store)
    assert index.ntotal == COUNT + 560 and not index.exact
    assert {name.split("-")[0] for name in before - names(store, "[cv]*-*")} == {"vectors", "codes"}
    assert len(before - names(store, "[cv]*-*")) == 2
    assert not set(range(1, 41)) & set((np.flatnonzero(index.searched) + 1).tolist())
    found = index.nearest(VECTORS[520:521], 2)
    assert sorted(found.rows[0].tolist()) == [521, COUNT + 521] and not found.values.any()


@pytest.mark.parametrize("pattern", ["vectors-*", "codes-*"])
@pytest.mark.parametrize("damage", ["cut", "empty", "lose"])
def test_a_derived_file_that_is_damaged_is_made_again(store: Store, pattern: str, damage: str) -> None:
    whole = open_search(store).nearest(QUERIES, 5)
    path = sorted(store.folder.glob(pattern))[len(names(store, pattern)) // 2]
    content = path.read_bytes()
    path.unlink()
    if damage != "lose":
        path.write_bytes(content[:-100] if damage == "cut" else b"")
    (store.folder / ".codes.half.part").write_bytes(b"what a kill left")
    assert_same(open_search(store).nearest(QUERIES, 5), whole)
    assert open_search(store).ntotal == COUNT and path.read_bytes() == content


def test_check_has_the_files_made_again(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A disk that returns other bytes changes neither size nor time."""
    whole = open_search(store).nearest(QUERIES, 5)
    for path in store.folder.glob("[cv]*-*"):
        content = bytearray(path.read_bytes())
        content[len(content) // 4] ^= 1
        path.write_bytes(content)
    assert match.main(["check", "--index", str(store.folder)]) == 0
    assert f"{COUNT:,} vectors are whole" in capsys.readouterr().out and not names(store, "[cv]*-*")
    assert_same(open_search(store).nearest(QUERIES, 5), whole)


def test_check_finds_damaged_vectors_in_the_database(store: Store) -> None:
    keep_queries(store, {b"query": VECTORS[0]})
    store.database.execute("UPDATE queries SET vector = zeroblob(64)")
    with pytest.raises(UserError, match="holds a damaged vector: remove"):
        match.main(["check", "--index", str(store.folder)])
    store.database.execute("UPDATE contents SET vector = zeroblob(64) WHERE content = 7")
    with pytest.raises(UserError, match=r"damaged vector, of .*6\.jpg"):
        match.main(["check", "--index", str(store.folder)])


def test_files_of_a_later_state_are_not_taken(store: Store) -> None:
    """As where the database was brought back from a copy."""
    open_search(store)
    for path in sorted(store.folder.glob("[cv]*-*")):
        state = path.stem.split("-")[2 if path.suffix == ".npy" else 1]
        path.rename(path.with_name(path.name.replace(f"-{state}", "-99", 1)))
    assert open_search(store).nearest(VECTORS[:200], 1).values.max() == 0
    assert not any("-99" in name for name in names(store, "[cv]*-*"))


def test_more_than_the_lists_hold_is_searched_exactly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "PROBED_LISTS", 0)
    approximate = open_search(store).nearest(QUERIES[:5], 2000, near=True)
    exact = open_search(store, exact=True).nearest(QUERIES[:5], 2000)
    assert np.array_equal(approximate.rows, exact.rows)


def test_vectors_that_are_not_finite_are_refused(store: Store) -> None:
    with pytest.raises(UserError, match="not finite"):
        open_search(store).nearest(np.full((1, DIMENSIONS), np.nan, np.float32), 3)
