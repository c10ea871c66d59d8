"""The pairs that lists find are those of all against all, each once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.shards import use_engine
from image_copies.matching.dedup import lists
from image_copies.matching.dedup.collection import Collection
from image_copies.matching.dedup.lists import MOST_NEAR, ListSearch, Opened, compare_list, entry_type, find_pairs, keep_best
from tests.sending import SendingEngine

LIMIT = 0.5


def entries(
    vectors: NDArray[np.float64], digests: list[int] | None = None, queries: NDArray[np.float64] | None = None
) -> NDArray[np.void]:
    made = np.zeros(len(vectors), entry_type(vectors.shape[1]))
    made["number"], made["vector"] = np.arange(len(vectors)), vectors
    made["query"] = vectors if queries is None else queries
    made["digest"] = np.arange(len(vectors)) if digests is None else digests
    return made


def unit(count: int, dimensions: int = 8, seed: int = 0) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def find(members: NDArray[np.void], tests: int | None = None) -> dict[tuple[int, int], tuple[float, bool]]:
    pairs = keep_best(np.concatenate(compare_list(members, LIMIT, tests)))
    assert len(np.unique(pairs[["first", "second"]])) == len(pairs)
    return {(first, second): (distance, same) for first, second, distance, same in pairs.tolist()}


def open_nothing() -> Any:
    return SimpleNamespace(normalize=return_them)


def return_them(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors


def test_a_list_is_compared_exactly_in_both_directions() -> None:
    members = entries(unit(1500), queries=unit(1500) * 1.1)
    vectors, queries = members["vector"].astype(np.float64), members["query"].astype(np.float64)
    far = ((queries[:, None] - vectors[None]) ** 2).sum(axis=2)
    nearest = np.minimum(far, far.T)
    wanted = {(i, j): nearest[i, j] for i, j in zip(*np.nonzero(np.triu(nearest <= LIMIT, 1)), strict=True)}
    found = find(members)
    assert found.keys() == wanted.keys() and len(found) > 1000
    assert all(abs(found[pair][0] - wanted[pair]) < 1e-12 and not found[pair][1] for pair in wanted)


def test_of_equal_bytes_one_is_compared() -> None:
    vectors = unit(6)
    vectors[[1, 2, 3, 5]] = vectors[1]
    vectors[4] = vectors[1] + 0.01
    assert find(entries(vectors, [0, 1, 1, 1, 4, 5])).keys() == {(1, 2), (1, 3), (1, 4), (1, 5), (4, 5)}
    assert {pair for pair, (_, same) in find(entries(vectors, [0, 1, 1, 1, 4, 5])).items() if same} == {(1, 2), (1, 3)}


def test_with_test_sets_only_inputs_and_these_are_paired() -> None:
    vectors = np.repeat(unit(1), 6, axis=0)
    found = find(entries(vectors, [1, 1, 2, 2, 1, 3]), tests=3)
    assert found.keys() == {(0, 4), (1, 4), (0, 3), (1, 3), (2, 3), (2, 4), (0, 5), (1, 5), (2, 5)}
    assert {pair for pair, (_, same) in found.items() if same} == {(0, 4), (1, 4), (2, 3)}
    assert find(entries(vectors[:3], [1, 1, 2]), tests=3) == {}


def test_pictures_that_show_nothing_are_paired_by_their_bytes_alone() -> None:
    members = entries(np.repeat(unit(1), 4, axis=0), [1, 1, 2, 3])
    members["flat"] = True
    assert find(members).keys() == {(0, 1)}


def test_of_very_many_copies_each_keeps_its_nearest() -> None:
    members = entries(np.repeat(unit(1), 600, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((600, 8)))
    found = find(members)
    assert 600 * MOST_NEAR / 2 <= len(found) <= 600 * (MOST_NEAR + 1)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_paired_with_nothing(count: int, tmp_path: Path) -> None:
    assert find(entries(unit(count))) == {}


def test_where_nothing_can_be_read_there_are_no_pairs(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"sha256": pa.array([None], pa.binary(32)), "flat": [False], "vector": pa.array([None], pa.list_(pa.float16(), 16))}
    parquet.write_table(pa.table(columns), tmp_path / "0.parquet")
    extractor: Any = SimpleNamespace(normalize=lambda queries: queries)
    comparison = ListSearch(Collection([tmp_path / "0.parquet"], np.array([0, 1]), 1), lambda: extractor, 0.1, tmp_path / "lists")
    (found,) = find_pairs(comparison)
    assert not len(np.load(found))


def test_many_lists_find_nearly_all_that_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    originals = unit(1500, 16, seed=1)
    near = originals[:500] + 0.02 * np.random.default_rng(2).standard_normal((500, 16))
    near[490:] = originals[1490:]
    vectors = np.concatenate([originals, near]).astype(np.float16)
    digests = [(number if number < 1990 else number - 500).to_bytes(32, "little") for number in range(2000)]
    for file in range(4):
        rows = slice(500 * file, 500 * file + 500)
        values = pa.FixedSizeListArray.from_arrays(pa.array(vectors[rows].ravel()), 16)
        table = {"sha256": pa.array(digests[rows], pa.binary(32)), "flat": [False] * 500, "vector": values}
        parquet.write_table(pa.table(table), tmp_path / f"{file}.parquet")
    collection = Collection([tmp_path / f"{file}.parquet" for file in range(4)], np.arange(0, 2001, 500), 2000)
    for name, value in {"EXACT": 100, "SPREAD": 700, "BUCKET": 1000}.items():
        monkeypatch.setattr(lists, name, value)
    comparison = ListSearch(collection, open_nothing, 0.1, tmp_path / "lists")
    assert comparison.lists == 89 and comparison.copies == 12 and len(comparison.groups) > 1 and len(comparison.buckets) > 1
    found = keep_best(np.concatenate([np.load(path) for path in find_pairs(comparison)]))
    far = ((vectors[:, None].astype(np.float32) - vectors[None].astype(np.float32)) ** 2).sum(axis=2)
    wanted = set(zip(*(places.tolist() for places in np.nonzero(np.triu(far <= 0.1, 1))), strict=True))
    assert set(zip(found["first"].tolist(), found["second"].tolist(), strict=True)) <= wanted
    assert len(found) >= 0.98 * len(wanted) and len(wanted) >= 500
    assert found[found["same"]][["first", "second"]].tolist() == [(number - 500, number) for number in range(1990, 2000)]
    assert not list((tmp_path / "lists").glob("entries-*"))

    bucket, engine = tmp_path / "lists" / "pairs-1.npy", SendingEngine()
    before = bucket.read_bytes()
    with use_engine(engine):
        assert find_pairs(comparison) and not engine.works
        bucket.unlink()
        find_pairs(comparison)
    assert engine.works == ["sorting into lists", "comparing"]
    assert bucket.read_bytes() == before


def test_a_process_opens_the_extractor_once_if_it_needs_it(tmp_path: Path) -> None:
    made = list[Any]()

    def open_counted() -> Any:
        made.append(SimpleNamespace())
        return made[-1]

    opened = Opened(ListSearch(Collection([], np.array([0]), 0), open_counted, 0.1, tmp_path))
    assert not made and opened.extractor is opened.extractor and len(made) == 1
