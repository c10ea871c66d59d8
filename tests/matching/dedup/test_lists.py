"""The pairs that blocks and lists find are those of all against all, each once."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from image_copies.data.shards import use_engine
from image_copies.matching.dedup import blocks, lists
from image_copies.matching.dedup.blocks import Packed
from image_copies.matching.dedup.collection import Collection
from image_copies.matching.dedup.comparing import MOST_NEAR, compare_blocks
from image_copies.matching.dedup.lists import PAIR, Lists, Meeting, Opened, choose_folder, find_pairs
from image_copies.pipeline.gpu_search import TorchSearch
from image_copies.submissions.search.neighbours import use_device
from tests.sending import SendingEngine

LIMIT = 0.5
Found = dict[tuple[int, int], tuple[float, bool]]


def pack(
    vectors: NDArray[np.float64],
    digests: Sequence[int] | None = None,
    queries: NDArray[np.float64] | None = None,
    flat: bool = False,
) -> Packed:
    """Pictures in one list."""
    known = np.arange(len(vectors)) if digests is None else np.array(digests)
    _, first = np.unique(known, return_index=True)
    alone = np.sort(first)
    stands = {int(known[row]): int(row) for row in alone}
    twins = [(stands[digest], row) for row, digest in enumerate(known.tolist()) if stands[digest] != row]
    kept = vectors[alone[:0] if flat else alone].astype(np.float16)
    asked = kept if queries is None else queries[alone].astype(np.float16)
    members = np.arange(len(kept), dtype=np.int32)
    rows, ends = alone.astype(np.int32), np.array([0, len(kept)])
    return Packed(kept, asked, rows, known[alone].astype(np.uint64), np.array(twins, np.int32).reshape(-1, 2), ends, members)


def unit(count: int, dimensions: int = 8, seed: int = 0) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def find(one: Packed, other: Packed | None = None, across: bool = False) -> Found:
    pairs = compare_blocks(one, one if other is None else other, LIMIT, across)
    assert len(np.unique(pairs[["one", "other"]])) == len(pairs)
    return {(first, second): (distance, same) for first, second, distance, same in pairs.tolist()}


def open_nothing() -> Any:
    return SimpleNamespace(normalize=return_them)


def return_them(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors


def open_shrinking() -> Any:
    return SimpleNamespace(normalize=shrink)


def shrink(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.float32(0.95) * vectors


@pytest.mark.parametrize("torch_too", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_what_meets_is_compared_exactly_in_both_directions(torch_too: bool, apart: bool) -> None:
    one = pack(unit(1500), queries=unit(1500) * 1.1)
    other = pack(unit(700, seed=1), range(2000, 2700), unit(700, seed=1) * 1.1) if apart else one
    sides = [own.astype(np.float64) for own in (one.queries, one.vectors, other.queries, other.vectors)]
    far = ((sides[0][:, None] - sides[3][None]) ** 2).sum(axis=2)
    nearest = np.minimum(far, ((sides[1][:, None] - sides[2][None]) ** 2).sum(axis=2))
    near = nearest <= LIMIT if apart else np.triu(nearest <= LIMIT, 1)
    wanted = {(i, j): nearest[i, j] for i, j in zip(*(places.tolist() for places in np.nonzero(near)), strict=True)}
    found = find(one, other)
    assert found.keys() == wanted.keys() and len(found) > 1000
    assert all(abs(found[pair][0] - wanted[pair]) < 1e-12 and not found[pair][1] for pair in wanted)
    if torch_too:
        with use_device(TorchSearch(torch.device("cpu"), 100)):
            assert find(one, other) == found


def test_of_equal_bytes_one_is_compared() -> None:
    vectors = unit(6)
    vectors[[1, 2, 3, 5]] = vectors[1]
    vectors[4] = vectors[1] + 0.01
    found = find(pack(vectors, [0, 1, 1, 1, 4, 5]))
    assert found.keys() == {(1, 2), (1, 3), (1, 4), (1, 5), (4, 5)}
    assert {pair for pair, (_, same) in found.items() if same} == {(1, 2), (1, 3)}


def test_what_has_equal_bytes_in_the_other_block_is_compared_there() -> None:
    vectors = np.repeat(unit(1), 3, axis=0)
    found = find(pack(vectors, [1, 1, 2]), pack(vectors, [2, 3, 3]))
    assert found == {(0, 1): (0, False), (2, 0): (0, True)}


def test_every_twin_of_an_input_is_compared_with_test_sets() -> None:
    vectors = np.repeat(unit(1), 3, axis=0)
    found = find(pack(vectors, [1, 1, 2]), pack(vectors, [2, 1, 3]), across=True)
    assert found.keys() == {(0, 1), (1, 1), (0, 0), (1, 0), (2, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
    assert {pair for pair, (_, same) in found.items() if same} == {(0, 1), (1, 1), (2, 0)}
    again = pack(vectors, [1, 1, 2])
    assert {pair for pair, (_, same) in find(again, again, across=True).items() if same} == {(0, 0), (1, 0), (2, 2)}


def test_pictures_that_show_nothing_are_paired_by_their_bytes_alone() -> None:
    shown = pack(np.repeat(unit(1), 4, axis=0), [1, 1, 2, 3], flat=True)
    assert find(shown).keys() == {(0, 1)}
    assert find(shown, pack(unit(1), [3], flat=True)).keys() == {(3, 0)}


def test_of_very_many_copies_each_keeps_its_nearest() -> None:
    vectors = np.repeat(unit(1), 600, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((600, 8))
    found = find(pack(vectors))
    assert 600 * MOST_NEAR / 2 <= len(found) <= 600 * (MOST_NEAR + 1)
    far = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    assert all((0, int(other)) in found for other in np.argsort(far[0])[1:200])


def write(path: Path, vectors: NDArray[np.float16], digests: Sequence[bytes | None]) -> None:
    """Vectors as they are left by embedding; those without a digest are of no picture."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    missing = pa.array([digest is None for digest in digests])
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1], mask=missing)
    table = {"sha256": pa.array(digests, pa.binary(32)), "flat": [False] * len(vectors), "vector": values}
    parquet.write_table(pa.table(table), path)


COUNT, FILES, LIMIT_OF_MANY = 2000, 8, 0.1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, NDArray[np.float16]]:
    """2,000 pictures of which 490 are copies of others, and 10 have their bytes."""
    pytest.importorskip("faiss")
    folder = tmp_path_factory.mktemp("many")
    originals = unit(1500, 16, seed=1)
    near = originals[:500] + 0.02 * np.random.default_rng(2).standard_normal((500, 16))
    near[490:] = originals[1490:]
    vectors = np.concatenate([originals, near]).astype(np.float16)
    digests = [(number if number < 1990 else number - 500).to_bytes(32, "little") for number in range(COUNT)]
    size = COUNT // FILES
    paths = [folder / f"{file}.parquet" for file in range(FILES)]
    for file, path in enumerate(paths):
        write(path, vectors[size * file : size * file + size], digests[size * file : size * file + size])
    return Collection(paths, np.arange(0, COUNT + 1, size), COUNT, ["now"] * FILES), vectors


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists and blocks of few pictures."""
    monkeypatch.setattr(lists, "EXACT", 100)
    monkeypatch.setattr(blocks, "PICTURES_PER_ROOT", 12)


def take_part(collection: Collection, files: Sequence[int], inputs: int | None = None) -> Collection:
    """Some files of a collection, of which so many are inputs."""
    starts = np.append(0, np.cumsum(np.diff(collection.starts)[list(files)]))
    own = [collection.files[file] for file in files]
    return Collection(own, starts, int(starts[len(files) if inputs is None else inputs]), ["now"] * len(files))


def find_by_lists_alone(vectors: NDArray[np.float16], centroids: NDArray[np.float32], settings: Lists) -> NDArray[np.void]:
    """All pairs that meet in a list, without blocks; of equal vectors the first is compared."""
    wide = vectors.astype(np.float32)
    asked = settings.open().normalize(wide).astype(np.float16).astype(np.float64)
    far = np.einsum("kd,kd->k", centroids, centroids) - 2 * (wide @ centroids.T)
    nearest = np.argpartition(far, settings.copies - 1, axis=1)[:, : settings.copies]
    met, found = np.zeros((COUNT, COUNT), bool), np.zeros((COUNT, COUNT))
    for number in range(settings.count):
        members = np.flatnonzero((nearest == number).any(axis=1))
        met[np.ix_(members, members)] = True
    for row, query in enumerate(asked):
        difference = query - vectors
        found[row] = np.einsum("nd,nd->n", difference, difference)
    found = np.minimum(found, found.T)
    met[1990:], met[:, 1990:] = False, False  # which have equal bytes
    first, second = np.nonzero(np.triu(met & (found <= LIMIT_OF_MANY), 1))
    pairs = np.zeros(len(first) + 10, PAIR)
    pairs["first"], pairs["second"] = np.append(first, range(1490, 1500)), np.append(second, range(1990, 2000))
    pairs["distance"] = np.append(found[first, second], np.zeros(10))
    pairs["same"][len(first) :] = True
    return pairs[np.lexsort((pairs["second"], pairs["first"]))]


@pytest.mark.parametrize("opener", [open_nothing, open_shrinking])
def test_blocks_find_to_the_byte_what_meets_in_lists(opener: Any, small: None, many: Any, tmp_path: Path) -> None:
    collection, vectors = many
    settings = Lists(opener, LIMIT_OF_MANY, tmp_path / "lists", COUNT, False)
    assert settings.count == 89 and settings.copies == 19
    found = find_pairs(collection, settings)
    assert found.tobytes() == find_by_lists_alone(vectors, np.load(settings.centroids), settings).tobytes()
    wide = opener().normalize(vectors.astype(np.float32))
    far = ((wide[:, None] - vectors[None].astype(np.float32)) ** 2).sum(axis=2)
    assert len(found) >= 0.98 * np.triu(far <= LIMIT_OF_MANY, 1).sum() and len(found) >= 500
    assert len(list((tmp_path / "lists" / "blocks").iterdir())) == 4

    engine, pairs = SendingEngine(), sorted((tmp_path / "lists").glob("within-*/*.npy"))
    assert len(pairs) == 4 * 5 / 2
    with use_engine(engine):
        assert find_pairs(collection, settings).tobytes() == found.tobytes()
        assert find_pairs(collection, replace(settings, limit=0.09)).tobytes() == found[found["distance"] <= 0.09].tobytes()
        assert not any(engine.shards)
        pairs[1].unlink()
        assert find_pairs(collection, settings).tobytes() == found.tobytes()
    assert engine.works[-1] == "comparing" and engine.shards[-1] == 1


def test_new_pictures_are_compared_and_no_others(small: None, many: Any, tmp_path: Path) -> None:
    collection, _ = many
    settings = Lists(open_nothing, LIMIT_OF_MANY, tmp_path / "lists", COUNT, False)
    find_pairs(take_part(collection, [0, 1, 2, 4, 5, 6]), settings)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "lists").rglob("*.np?")}
    grown = take_part(collection, [0, 1, 2, 3, 4, 5, 6])
    found = find_pairs(grown, settings)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "lists").rglob("*.np?")}
    assert before.items() < after.items()
    assert len(after) - len(before) == 1 + 4  # a block, and its pairs with three and itself

    nothing = tmp_path / "nothing"
    nothing.mkdir()
    shutil.copy(settings.centroids, nothing)
    assert find_pairs(grown, replace(settings, folder=nothing)).tobytes() == found.tobytes()

    fewer = find_pairs(take_part(collection, [0, 1, 6]), settings)
    names = {path.name for path in (tmp_path / "lists").rglob("*.np?")}
    assert len(fewer) and len(names) < len(after)


def test_what_was_an_input_is_not_packed_again_as_a_test_set(small: None, many: Any, tmp_path: Path) -> None:
    collection, _ = many
    settings = Lists(open_nothing, LIMIT_OF_MANY, tmp_path / "lists", COUNT, False)
    whole = find_pairs(collection, settings)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "lists" / "blocks").iterdir()}
    engine = SendingEngine()
    with use_engine(engine):
        found = find_pairs(take_part(collection, [6, 7, 0, 1, 2, 3, 4, 5], 2), replace(settings, across=True))
    assert before.items() == {path: path.stat().st_mtime_ns for path in (tmp_path / "lists" / "blocks").iterdir()}.items()
    assert engine.shards == [0, 3]
    across = whole[(whole["second"] >= 1500) & (whole["first"] < 1500)]
    numbers = np.stack([across["second"] - 1500, across["first"] + 500], axis=1)
    assert {*map(tuple, numbers.tolist())} == {*found[["first", "second"]].tolist()} and len(found) >= 480


def test_many_small_blocks_are_joined(small: None, many: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection, _ = many
    monkeypatch.setattr(blocks, "PICTURES_PER_ROOT", 30)
    known: list[Sequence[str]] = [[collection.name_part(file)] for file in range(8)]
    assert len(blocks.plan_blocks(collection, 0, 8, known, COUNT)) == 8
    monkeypatch.setattr(blocks, "MOST_SMALL", 7)
    (one, other) = blocks.plan_blocks(collection, 0, 8, known, COUNT)
    assert one.files + other.files == tuple(range(8))


def test_lists_stay_while_a_collection_has_about_the_same_size(tmp_path: Path) -> None:
    folder, planned = choose_folder(tmp_path, "a", 100_000)
    assert planned == 100_000
    assert choose_folder(tmp_path, "a", 190_000) == (folder, 100_000) == choose_folder(tmp_path, "a", 51_000)
    assert choose_folder(tmp_path, "a", 210_000)[1] == 210_000 and not folder.exists()
    assert choose_folder(tmp_path, "a", 20_000)[1] == 20_000 == choose_folder(tmp_path, "b", 20_000)[1]
    assert choose_folder(tmp_path, "b", 20_001)[1] == 20_001
    assert len(list(tmp_path.iterdir())) == 1


def test_a_process_opens_the_extractor_once_if_it_needs_it(tmp_path: Path) -> None:
    made = list[Any]()

    def open_counted() -> Any:
        made.append(SimpleNamespace())
        return made[-1]

    opened = Opened(Lists(open_counted, 0.1, tmp_path, 1, False))
    assert not made and opened.extractor is opened.extractor and len(made) == 1


def test_the_next_blocks_are_read_before_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU waited for each."""
    blocks_of, read, last = {name: pack(unit(1)) for name in "abc"}, list[str](), Event()

    def remember(path: Path) -> Packed:
        read.append(path.stem)
        if path.stem == "c":
            last.set()
        return blocks_of[path.stem]

    monkeypatch.setattr(Packed, "read", remember)
    opened = Opened(Lists(open_nothing, 0.1, tmp_path, 1, False), upcoming=Meeting("a", "c", 2))
    one, other = opened.read(Meeting("a", "b", 2))
    assert one is blocks_of["a"] and other is blocks_of["b"] and last.wait(10)
    opened.upcoming = None
    assert opened.read(Meeting("a", "c", 2))[1] is blocks_of["c"] and read == ["a", "b", "c"]
    assert opened.read(Meeting("a", "b", 2))[1] is blocks_of["b"] and read == ["a", "b", "c", "b"]
