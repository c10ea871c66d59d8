"""Vectors in files of bounded size, and approximate search by their codes: nothing is lost, nothing is rewritten without need."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.data.shards import use_engine
from image_copies.matching.extractor import Extractor
from image_copies.matching.index import codes, index_files, segments
from image_copies.matching.index.index_files import open_intact_index, write_index
from image_copies.matching.index.search import Nearest, Neighbours, open_search
from image_copies.matching.index.store import Content, Store, add_files, keep_queries, open_store, remove_files
from image_copies.matching.matches import Exclusions, Rule
from image_copies.matching.search import Search
from image_copies.matching.threshold import Tail
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline import match
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from tests.sending import SendingEngine

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
    add_files(store, files, [Content(b"%d" % row, vectors[row % COUNT]) for row in rows])


def names(store: Store, pattern: str) -> set[str]:
    return {path.name for path in store.folder.glob(pattern)}


def assert_same(one: Nearest, other: Nearest) -> None:
    assert np.array_equal(one.contents, other.contents) and np.array_equal(one.distances, other.distances)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An index of 3,000 vectors in files of 1,024 each."""
    for name, value in (("MAX_SEGMENT_CONTENTS", 1024), ("SEGMENT_CONTENTS_PER_ROOT", 0), ("MIN_CHANGED_CONTENTS", 50)):
        monkeypatch.setattr(segments, name, value)
    monkeypatch.setattr(codes, "MIN_CODED_CONTENTS", 500)
    with open_store(tmp_path / "index", "extractor", DIMENSIONS) as opened:
        add(opened, range(COUNT))
        yield opened


def test_approximate_search_finds_what_exact_search_does_with_exact_distances(store: Store) -> None:
    approximate, exact = open_search(store), open_search(store, exact=True)
    assert not approximate.exact and exact.exact and approximate.ntotal == exact.ntotal == COUNT
    assert len(names(store, "vectors-*")) == len(names(store, "codes-*")) == 3
    found, true = approximate.nearest(QUERIES, 10), exact.nearest(QUERIES, 10)
    hit = [len(set(one) & set(other)) / 10 for one, other in zip(found.contents.tolist(), true.contents.tolist(), strict=True)]
    assert np.mean(hit) >= 0.95
    assert np.array_equal(found.contents[:, 0], true.contents[:, 0])
    distances = ((exact.vectors_of(found.contents.ravel()).astype(np.float64) - np.repeat(QUERIES, 10, axis=0)) ** 2).sum(axis=1)
    assert np.allclose(found.distances.ravel(), distances, atol=1e-12)
    assert np.array_equal(exact.vectors_of(exact.numbers()), VECTORS)


def count_lists(index: Neighbours) -> int:
    """Return how many lists the codes have, the same number in all files."""
    opened = [coded.inverted_file(near) for coded in index.codes if coded is not None for near in (True, False)]
    (count,) = {one.nlist for one in opened}
    return int(count)


def test_copies_are_found_in_few_of_the_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matches are those of the exact search, and of one that looks into most lists."""
    monkeypatch.setattr(codes, "PROBED_LISTS", 5)
    monkeypatch.setattr(codes, "PROBED_LISTS_POWER", 0)
    looked_into = list[int]()

    def note_lists(*given: Any) -> codes.Probed:
        probed = codes.choose_lists(*given)
        looked_into.append(probed.lists.shape[1])
        return probed

    monkeypatch.setattr("image_copies.matching.index.search.choose_lists", note_lists)
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
        add_files(store, {}, [Content(b"%d" % row, vector) for row, vector in enumerate(vectors)])
        index = open_search(store)
        assert count_lists(index) > 300
        found = index.nearest(queries, 10, near=True)
        exact = open_search(store, exact=True).nearest(queries, 10)
    at_first = exact.contents[:, 0]
    lost = [first not in contents for first, contents in zip(at_first.tolist(), found.contents.tolist(), strict=True)]
    assert np.mean(lost) < 0.02


def test_hardly_a_copy_is_lost_among_the_lists_of_a_million_contents() -> None:
    """Centroids lie where contents around them have their mean, and an original is in the list of the nearest."""
    faiss: Any = pytest.importorskip("faiss")
    rng, dimensions, distance = np.random.default_rng(1), 32, 0.5
    originals, away = (scale_to_unit_length(rng.standard_normal((1000, dimensions), dtype=np.float32)) for _ in range(2))
    away = scale_to_unit_length(away - (away * originals).sum(axis=1, keepdims=True) * originals)
    copies = (1 - distance / 2) * originals + np.float32((distance - distance**2 / 4) ** 0.5) * away
    index = faiss.index_factory(dimensions, "IVF4000,Flat")
    index.quantizer.add(0.4 * scale_to_unit_length(rng.standard_normal((index.nlist, dimensions), dtype=np.float32)))
    nearest = index.quantizer.search(originals, codes.SECOND_LISTS)[1]
    holding = codes.choose_two_lists(originals, nearest, index.quantizer.reconstruct_n(0, index.nlist))
    probed = codes.choose_lists(codes.Codes(Path(), faiss.IndexRefine(index, index)), copies, near=True).lists
    missed = (probed[None] != holding[:, :, None]).all(axis=2)
    assert missed.all(axis=0).mean() < 0.01 < missed[0].mean() and probed.shape[1] < 0.1 * index.nlist


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_second_list_is_the_one_whose_error_complements_the_first(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, centroids = rng.standard_normal((8, 5), np.float32), rng.standard_normal((9, 5), np.float32)
    nearest = np.argsort(((vectors[:, None] - centroids) ** 2).sum(axis=2), axis=1)[:, :count]
    chosen = codes.choose_two_lists(vectors, nearest, centroids)
    assert np.array_equal(chosen[0], nearest[:, 0]) and len(chosen) == min(2, count)
    for vector, candidates, second in zip(vectors, nearest.tolist(), chosen[-1].tolist(), strict=True):
        first = vector - centroids[candidates[0]]
        losses = [
            (error := vector - centroids[number]) @ error + (error @ first / np.linalg.norm(first)) ** 2
            for number in candidates[1:]
        ]
        assert not losses or losses[candidates[1:].index(second)] == pytest.approx(min(losses), rel=1e-4)


def test_codes_that_are_in_one_list_each_are_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of earlier versions were, of which as few lists would not do."""
    with monkeypatch.context() as earlier:
        earlier.setattr(codes, "COARSE_LISTS", 1)
        earlier.setattr(codes, "choose_two_lists", lambda vectors, nearest, centroids: nearest.T[:1].copy())
        open_search(store)
    before = names(store, "codes-*")
    index = open_search(store)
    assert names(store, "codes-*").isdisjoint(before) and len(names(store, "codes-*")) == len(before)
    for near in (True, False):
        for coded, segment in zip(index.codes, index.segments, strict=True):
            assert coded is not None and coded.inverted_file(near).ntotal == (1 + near) * len(segment.numbers)


def test_each_content_is_a_candidate_once(store: Store) -> None:
    index = open_search(store)
    for count in (1, 10, COUNT):
        ((_, numbers),) = index.search_blocks([QUERIES], count, near=True)
        assert all(len(set(found)) == len(found) for row in numbers.tolist() if (found := [one for one in row if one >= 0]))


def test_neighbours_at_any_distance_are_looked_for_as_widely_behind_excluded_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the nearest references are excluded, a second and a third round look deeper, into as many lists as the first."""
    monkeypatch.setattr(codes, "PROBED_LISTS", 0)
    monkeypatch.setattr(codes, "PROBED_LIST_SHARE", 1.0)
    order = np.argsort(((QUERIES[:, None] - VECTORS[None]) ** 2).sum(axis=2), axis=1)
    names = [b"query %d" % row for row in range(len(QUERIES))]
    pairs = zip(names, order[:, :30].tolist(), strict=True)
    rejected = frozenset(frozenset((name, b"%d" % row)) for name, nearest in pairs for row in nearest)
    extractor = Extractor([], EmbeddingSettings(), lambda vectors: vectors, DIMENSIONS, "extractor")
    rule = Rule(None, None, 0.001, 10)
    found = [
        [
            [match.reference for match in matches]
            for matches in Search(store, extractor, rule, Exclusions(rejected), candidates=10, exact=exact).near(QUERIES, names)
        ]
        for exact in (True, False)
    ]
    assert all(len(one) == 10 for one in found[0]) and found[1] == found[0]


def test_lists_and_files_grow_with_the_root_of_the_contents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "LISTS_PER_ROOT", 0.5)
    assert count_lists(open_search(store)) == round(0.5 * COUNT**0.5) and len(names(store, "vectors-*")) == 3
    before = names(store, "quantizers-*")
    monkeypatch.setattr(segments, "SEGMENT_CONTENTS_PER_ROOT", 40)
    add(store, range(COUNT, 5 * COUNT))
    assert count_lists(open_search(store)) == round(0.5 * (5 * COUNT) ** 0.5)
    assert names(store, "quantizers-*").isdisjoint(before) and len(names(store, "quantizers-*")) == 1
    sizes = sorted(len(segment.numbers) for segment in open_search(store).segments)
    assert sizes[-1] == round(40 * (5 * COUNT) ** 0.5) and sum(sizes) == 5 * COUNT


def test_an_index_with_another_number_of_lists_is_searched_as_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of earlier versions, which had 512 lists at any size."""
    with monkeypatch.context() as earlier:
        earlier.setattr(codes, "LISTS_PER_ROOT", 0.3)
        open_search(store)
    before = names(store, "[cqv]*")
    index = open_search(store)
    assert names(store, "[cqv]*") == before and count_lists(index) == round(0.3 * COUNT**0.5)
    assert np.array_equal(index.nearest(VECTORS[:200], 1).contents[:, 0], np.arange(1, 201))


def test_exact_search_in_several_files_is_that_of_all_distances(store: Store) -> None:
    remove_files(store, [Path(f"/a/{row}.jpg") for row in range(0, 3000, 61)])
    index = open_search(store, exact=True)
    kept = np.setdiff1d(np.arange(COUNT), np.arange(0, 3000, 61))
    found = index.nearest(QUERIES, 40)
    distances = ((QUERIES[:, None].astype(np.float64) - VECTORS[None, kept]) ** 2).sum(axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :40]
    assert np.array_equal(found.contents, kept[order] + 1)
    assert np.allclose(found.distances, np.take_along_axis(distances, order, 1), atol=1e-12)


def test_a_query_whose_whole_neighbourhood_is_gone_is_answered_exactly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SPARE_NEIGHBOURS", 2)
    monkeypatch.setattr(segments, "MIN_CHANGED_CONTENTS", 500)
    open_search(store)
    before = names(store, "vectors-*")
    query = QUERIES[:1]
    order = np.argsort(((VECTORS - query) ** 2).sum(axis=1), kind="stable")
    remove_files(store, [Path(f"/a/{row}.jpg") for row in order[:300]])
    found = open_search(store, exact=True).nearest(query, 5)
    assert found.contents[0].tolist() == (order[300:305] + 1).tolist()
    assert names(store, "vectors-*") == before


def test_what_is_added_or_removed_rewrites_no_other_file(store: Store) -> None:
    open_search(store)
    vectors, coded = names(store, "vectors-*"), names(store, "codes-*")
    quantizer = names(store, "quantizers-*")
    add(store, range(COUNT, COUNT + 30), scale_to_unit_length(draw(COUNT)))
    remove_files(store, [Path(f"/a/{row}.jpg") for row in range(40)])
    index = open_search(store)
    assert index.ntotal == COUNT - 10 and names(store, "[cqv]*") == vectors | coded | quantizer
    add(store, range(COUNT + 30, COUNT + 100))
    index = open_search(store)
    assert index.ntotal == COUNT + 60 and not index.exact
    assert len(vectors - names(store, "vectors-*")) <= 1 and len(coded - names(store, "codes-*")) <= 1
    assert names(store, "quantizers-*") == quantizer
    found = index.nearest(VECTORS[30:31], 3)  # its own is gone; added again as content COUNT + 30
    assert found.contents[0, 0] == COUNT + 31 and found.distances[0, 0] == 0
    assert not set(range(1, 41)) & set(index.numbers().tolist())
    remove_files(store, [Path(f"/a/{row}.jpg") for row in range(1100, 1300)])
    before = names(store, "vectors-*")
    assert open_search(store).ntotal == COUNT - 140
    assert len(before - names(store, "vectors-*")) == 1
    assert set(open_search(store).numbers().tolist()) == set(range(41, COUNT + 101)) - set(range(1101, 1301))


@pytest.mark.parametrize("pattern", ["vectors-*", "codes-*", "quantizers-*"])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_a_derived_file_that_is_damaged_is_made_again(store: Store, pattern: str, damage: str) -> None:
    whole = open_search(store).nearest(QUERIES, 5)
    path = sorted(store.folder.glob(pattern))[len(names(store, pattern)) // 2]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "lose":
        path.unlink()
    else:
        path.write_bytes(bytes(content) if damage == "flip" else content[:-100])
    (store.folder / ".codes.half.part").write_bytes(b"what a kill left")
    again = open_search(store).nearest(QUERIES, 5)
    assert_same(again, whole)
    assert open_search(store).ntotal == COUNT and all(open_intact_index(file) for file in store.folder.glob("*.faiss"))


def test_a_file_is_read_when_its_size_or_time_is_new(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes of earlier versions, which noted neither, are opened as they are."""
    whole, files = open_search(store).nearest(QUERIES, 5), names(store, "[cqv]*-*")
    read: list[Path] = []

    def note_reading(path: Path) -> str:
        read.append(path)
        return digest_file(path)

    monkeypatch.setattr(index_files, "digest_file", note_reading)
    open_search(store)
    assert not read
    (store.folder / index_files.INTACT).unlink()
    again = open_search(store).nearest(QUERIES, 5)
    assert {path.name for path in read} == names(store, "[cqv]*-*") == files
    assert_same(again, whole)
    read.clear()
    touched = next(store.folder.glob("codes-*"))
    os.utime(touched, ns=(5, 7))
    open_search(store)
    open_search(store)
    assert read == [touched]


@pytest.mark.parametrize("pattern", ["vectors-*", "codes-*", "quantizers-*"])
def test_check_finds_what_was_changed_without_a_trace(store: Store, pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A disk that returns other bytes changes neither size nor time."""
    whole, command = open_search(store).nearest(QUERIES, 5), ["check", "--index", str(store.folder)]
    assert match.main(command) == 0
    assert f"{COUNT:,} vectors in the database and 7 files read, 0 damaged" in capsys.readouterr().out
    path = sorted(store.folder.glob(pattern))[-1]
    content, state = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 4] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    open_search(store)
    assert path.read_bytes() == content
    assert match.main(command) == 1
    assert f"{path} is damaged: the next search writes it again" in capsys.readouterr().out
    again = open_search(store).nearest(QUERIES, 5)
    assert_same(again, whole)
    assert match.main(command) == 0


def test_check_finds_damaged_vectors_in_the_database(store: Store) -> None:
    keep_queries(store, [Content(b"query", VECTORS[0])])
    store.database.execute("UPDATE queries SET vector = zeroblob(64)")
    with pytest.raises(UserError, match="damaged vector of a query"):
        match.main(["check", "--index", str(store.folder)])
    store.database.execute("UPDATE contents SET vector = zeroblob(64) WHERE content = 7")
    with pytest.raises(UserError, match=r"damaged vector, of .*6\.jpg"):
        match.main(["check", "--index", str(store.folder)])


def test_codes_of_other_vectors_are_not_taken(store: Store) -> None:
    open_search(store)
    (one, other, *_) = sorted(store.folder.glob("codes-*"))
    stale = "-".join(other.stem.split("-")[:3])
    wrong = open_intact_index(one)
    other.unlink()
    assert wrong is not None
    write_index(wrong, store.folder, stale.replace(stale.split("-")[2], "0" * 16))
    write_index(wrong, store.folder, stale.replace(stale.split("-")[1], "0" * 16))
    assert open_search(store).nearest(VECTORS[:200], 1).distances.max() == 0
    assert len(names(store, "codes-*")) == 3 and not any("0" * 16 in name for name in names(store, "codes-*"))


def test_more_than_the_lists_hold_is_searched_exactly(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "PROBED_LISTS", 0)
    approximate = open_search(store).nearest(QUERIES[:5], 2000, near=True)
    exact = open_search(store, exact=True).nearest(QUERIES[:5], 2000)
    assert np.array_equal(approximate.contents, exact.contents)


@pytest.mark.parametrize("exact", [True, False])
def test_an_engine_finds_the_same_in_every_file_by_itself(store: Store, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_copies.matching.index.search.PAIRS_WORTH_SENDING", 0)
    open_search(store, exact)
    add(store, range(COUNT, COUNT + 30), scale_to_unit_length(draw(COUNT)))  # in memory only
    remove_files(store, [Path(f"/a/{row}.jpg") for row in range(40)])
    alone = open_search(store, exact).nearest(QUERIES, 12)
    engine = SendingEngine()
    with use_engine(engine):
        for path in store.folder.glob("codes-*"):
            path.unlink()
        index = open_search(store, exact)
        monkeypatch.setattr("image_copies.matching.index.search.LOOKED_UP_TOGETHER", 40)
        elsewhere = index.nearest(QUERIES, 12)
    assert len(index.segments) == 4 and index.exact == exact
    assert engine.works == ([] if exact else ["encoding vectors"]) + ["searching the index"]
    assert_same(alone, elsewhere)


def test_a_node_that_does_not_see_the_index_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_copies.matching.index.search.PAIRS_WORTH_SENDING", 0)
    index = open_search(store, exact=True)
    for path in store.folder.glob("vectors-*"):
        path.unlink()
    with use_engine(SendingEngine()), pytest.raises(UserError, match=r"vectors-.* is missing or damaged\. All nodes must share"):
        index.nearest(QUERIES, 3)


def test_vectors_that_are_not_finite_are_refused(store: Store) -> None:
    with pytest.raises(UserError, match="not finite"):
        open_search(store).nearest(np.full((1, DIMENSIONS), np.nan, np.float32), 3)
