"""The pairs that blocks and lists find are those of all against all, each once."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from image_copies.data.shards import use_engine
from image_copies.matching.dedup import blocks
from image_copies.matching.dedup.blocks import (
    MOST_NEAR,
    SAME_BYTES,
    Block,
    Lists,
    Packed,
    compare_blocks,
    find_pairs,
    load_array,
    save_arrays,
    write_block,
)
from image_copies.matching.dedup.vectors import Collection, Embedding
from image_copies.matching.groups.groups import PAIR, Pairs
from image_copies.pipeline.gpu_search import TorchSearch
from image_copies.submissions.search.neighbours import use_device
from tests.sending import SendingEngine

LIMIT = 0.5
Found = dict[tuple[int, int, bool], float]


def pack(
    vectors: NDArray[np.float64],
    digests: Sequence[int] | None = None,
    queries: NDArray[np.float64] | None = None,
    flat: bool = False,
    unreadable: Sequence[int] = (),
) -> Packed:
    """Pictures in one list."""
    known = range(len(vectors)) if digests is None else digests
    readable = ~np.isin(np.arange(len(vectors)), unreadable)
    contents = np.array([digest.to_bytes(32, "big") for digest in known], "S32")
    found = vectors.astype(np.float32), readable, np.full(len(vectors), flat), contents
    alone = np.sort(np.unique(known, return_index=True)[1])
    asked = vectors if queries is None else queries
    block = Block(f"block {sum(known)}", 0, 1)
    with tempfile.TemporaryDirectory() as folder:
        place: Any = SimpleNamespace(
            collection=SimpleNamespace(read_vectors=lambda file: found),
            embedding=SimpleNamespace(open=lambda: SimpleNamespace(normalize=lambda _: asked[alone].astype(np.float32))),
            block=lambda block: Path(folder, "block.npz"),
            centroids=Path(folder, "centroids.npz"),
            copies=1,
        )
        save_arrays(place.centroids, centroids=np.zeros((1, 8), np.float32))
        write_block(place, block)
        return Packed.read(place.block(block))


def unit(count: int, dimensions: int = 8, seed: int = 0) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def find(one: Packed, other: Packed | None = None) -> Found:
    """The distances of pairs of two blocks, and whether their bytes are equal; or of one block with itself."""
    pairs = compare_blocks(one, one if other is None else other, LIMIT)
    count = 0 if other is None or other is one else len(one.digests)
    return {(first, second - count, score > 0): 0 if score > 0 else -score for first, second, score in pairs.tolist()}


def open_scaling(scale: float) -> Any:
    return SimpleNamespace(normalize=partial(np.multiply, np.float32(scale)))


@pytest.mark.parametrize("torch_too", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_what_meets_is_compared_exactly_in_both_directions(torch_too: bool, apart: bool) -> None:
    one = pack(unit(1500), queries=unit(1500) * 1.1)
    other = pack(unit(700, seed=1), range(2000, 2700), unit(700, seed=1) * 1.1) if apart else one
    (vectors, queries), (others, their_queries) = (own.sides.astype(np.float64) for own in (one, other))
    far = ((queries[:, None] - others[None]) ** 2).sum(axis=2)
    nearest = np.minimum(far, ((vectors[:, None] - their_queries[None]) ** 2).sum(axis=2))
    near = nearest <= LIMIT if apart else np.triu(nearest <= LIMIT, 1)
    wanted = {(i, j, False): nearest[i, j] for i, j in zip(*(places.tolist() for places in np.nonzero(near)), strict=True)}
    found = find(one, other)
    assert found.keys() == wanted.keys() and len(found) > 1000
    assert all(abs(found[pair] - wanted[pair]) < 1e-12 for pair in wanted)
    if torch_too:
        with use_device(TorchSearch(torch.device("cpu"), 100)):
            assert find(one, other) == found


def test_of_equal_bytes_one_is_compared() -> None:
    vectors = unit(6)
    vectors[[1, 2, 3, 5]] = vectors[1]
    vectors[4] = vectors[1] + 0.01
    assert find(pack(vectors, [0, 1, 1, 1, 4, 5])).keys() == {(1, 4, False), (1, 5, False), (4, 5, False)}
    same = np.repeat(vectors[:1], 3, axis=0)
    near = {(0, 0, False), (0, 1, False), (2, 1, False)}
    one = pack(same, [1, 1, 2])
    assert find(one, pack(same, [2, 3, 3])).keys() == near | {(2, 0, True)}
    assert one.pairs.tolist() == [(0, 1, SAME_BYTES)]


@pytest.mark.parametrize(("kind", "equal"), [({"flat": True}, {(3, 0, True)}), ({"unreadable": range(4)}, set())])
def test_pictures_that_show_nothing_are_paired_by_their_bytes_alone(kind: Any, equal: set[Any]) -> None:
    """And those that cannot be read not at all."""
    shown = pack(np.repeat(unit(1), 4, axis=0), [1, 1, 2, 3], **kind)
    assert not find(shown) and len(shown.pairs) == len(equal)
    assert find(shown, pack(unit(1), [3], **kind)).keys() == equal


def test_of_very_many_copies_each_keeps_its_nearest() -> None:
    vectors = np.repeat(unit(1), 600, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((600, 8))
    found = find(pack(vectors))
    assert 600 * MOST_NEAR / 2 <= len(found) <= 600 * (MOST_NEAR + 1)
    far = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    assert all((0, int(other), False) in found for other in np.argsort(far[0])[1:200])


def write(path: Path, vectors: NDArray[np.float16], digests: Sequence[bytes]) -> None:
    """Vectors as they are left by embedding."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = {"sha256": pa.array(digests, pa.binary(32)), "flat": [False] * len(vectors), "vector": values}
    parquet.write_table(pa.table(table | {"error": pa.nulls(len(vectors), "string")}), path)


COUNT, FILES, LIMIT_OF_MANY = 2000, 40, 0.1


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
    return Collection(paths, np.arange(0, COUNT + 1, size), FILES, [str(path) for path in paths]), vectors


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists and blocks of few pictures."""
    monkeypatch.setattr(blocks, "EXACT", 100)
    monkeypatch.setattr(blocks, "PICTURES_PER_ROOT", 12)


def take_part(collection: Collection, files: Sequence[int], border: int | None = None) -> Collection:
    """Some files of a collection, of which so many are inputs."""
    starts = np.append(0, np.cumsum(np.diff(collection.starts)[list(files)]))
    own = [collection.files[file] for file in files]
    return Collection(own, starts, len(files) if border is None else border, [str(path) for path in own])


def find_by_lists_alone(vectors: NDArray[np.float16], centroids: NDArray[np.float32], settings: Lists) -> Pairs:
    """All pairs that meet in a list, without blocks; of equal vectors the first is compared."""
    wide = vectors.astype(np.float32)
    asked = settings.embedding.open().normalize(wide).astype(np.float16).astype(np.float64)
    far = np.einsum("kd,kd->k", centroids, centroids) - 2 * (wide @ centroids.T)
    nearest = np.argpartition(far, settings.copies - 1, axis=1)[:, : settings.copies]
    met = np.zeros((COUNT, COUNT), bool)
    for number in range(settings.count):
        members = np.flatnonzero((nearest == number).any(axis=1))
        met[np.ix_(members, members)] = True
    found = np.stack([np.einsum("nd,nd->n", query - vectors, query - vectors) for query in asked])
    found = np.minimum(found, found.T)
    met[1990:], met[:, 1990:] = False, False  # which have equal bytes
    first, second = np.nonzero(np.triu(met & (found <= LIMIT_OF_MANY), 1))
    pairs = [(*pair, -found[pair]) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    pairs += [(number - 500, number, SAME_BYTES) for number in range(1990, 2000)]
    return np.sort(np.array(pairs, PAIR))


def plan(collection: Collection, folder: Path, limit: float = LIMIT_OF_MANY, scale: float = 1) -> Lists:
    return Lists(Embedding(partial(open_scaling, scale), "", folder), collection, limit)


def list_times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.np?")}


@pytest.mark.parametrize("scale", [1, 0.95])
def test_blocks_find_to_the_byte_what_meets_in_lists(scale: float, small: None, many: Any, tmp_path: Path) -> None:
    collection, vectors = many
    settings = plan(collection, tmp_path, scale=scale)
    assert settings.count == 91 and settings.copies == 19
    found = find_pairs(settings)
    once = found[(found["second"] < 1990) | (found["score"] > 0)]  # of equal bytes in two blocks, both are compared
    assert once.tobytes() == find_by_lists_alone(vectors, load_array("centroids", settings.centroids), settings).tobytes()
    wide = vectors.astype(np.float32)
    far = ((np.float32(scale) * wide[:, None] - wide[None]) ** 2).sum(axis=2)
    assert len(found) >= 0.98 * np.triu(far <= LIMIT_OF_MANY, 1).sum() and len(found) >= 500
    count = len(list((settings.folder / "blocks").iterdir()))

    engine, pairs = SendingEngine(), sorted(settings.folder.glob("pairs/*/*.npz"))
    assert count > 3 and len(pairs) == count * (count + 1) / 2
    with use_engine(engine):
        assert find_pairs(settings).tobytes() == found.tobytes()
        nearer = replace(settings, limit=0.099)
        assert find_pairs(nearer).tobytes() == found[found["score"] >= -0.099].tobytes()
        assert not any(engine.shards)
        pairs[1].unlink()
        assert find_pairs(settings).tobytes() == found.tobytes()
    assert engine.works[-1] == "comparing" and engine.shards[-1] == 1


def test_new_pictures_are_compared_and_no_others(small: None, many: Any, tmp_path: Path) -> None:
    collection, _ = many
    first = plan(take_part(collection, [file for file in range(FILES) if file != 20]), tmp_path / "lists")
    find_pairs(first)
    before = list_times(first.folder)
    grown = plan(collection, tmp_path / "lists")
    found = find_pairs(grown)
    after = list_times(first.folder)
    kept = [path for path in before.items() & after.items() if path[0].parent.name == "blocks"]
    assert first.folder == grown.folder and 2 < len(kept) >= len(list((first.folder / "blocks").iterdir())) - 2
    again = plan(collection, tmp_path / "again")
    again.folder.mkdir(parents=True)
    again.centroids.write_bytes(first.centroids.read_bytes())
    assert find_pairs(again).tobytes() == found.tobytes()
    assert list_times(again.folder).keys() == {again.folder / path.relative_to(first.folder) for path in after}, "others went"


def test_what_was_an_input_is_not_packed_again_as_a_test_set(small: None, many: Any, tmp_path: Path) -> None:
    collection, _ = many
    whole = find_pairs(plan(collection, tmp_path))
    moved = take_part(collection, [*range(30, FILES), *range(30)], 10)
    before = list_times(tmp_path)
    found = find_pairs(plan(moved, tmp_path))
    assert len(before.items() & list_times(tmp_path).items()) > 3
    across = whole[(whole["second"] >= 1500) & (whole["first"] < 1500)]
    numbers = np.stack([across["second"] - 1500, across["first"] + 500], axis=1)
    assert {*map(tuple, numbers.tolist())} == {*found[["first", "second"]].tolist()} and len(found) >= 480


def test_lists_and_blocks_stay_until_there_are_twice_as_many_pictures(small: None, many: Any, tmp_path: Path) -> None:
    collection, _ = many
    plans = [plan(take_part(collection, range(files)), tmp_path) for files in (20, 21, FILES)]
    assert plans[0].folder != plans[1].folder == plans[2].folder
    assert plans[0].block_size < plans[1].block_size == plans[2].block_size
