"""Search in shards: found like in one file, with exact distances; a build continues, and shards are encoded once."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from data.errors import UserError
from submissions.ensemble.projection import scale_to_unit_length
from submissions.index.search import find_nearest
from submissions.search import sharded
from submissions.search.sharded import build_sharded_index, open_sharded_index, open_stored_vectors
from submissions.vectors.files import iterate_vectors, read_vectors, write_vectors

SIZES, UNREADABLE = (700, 500, 801), 3


def draw(count: int, seed: int) -> NDArray[np.float32]:
    return scale_to_unit_length(np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32))


@pytest.fixture(params=[False, True], ids=["float32", "float16"])
def shards(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path]:
    """Three vectors files, each of which begins with unreadable images."""
    paths = [tmp_path / f"{number:06d}.h5" for number in range(len(SIZES))]
    for number, (path, size) in enumerate(zip(paths, SIZES, strict=True)):
        values = draw(size, number)
        values[:UNREADABLE] = 0
        write_vectors(path, [f"{number}-{row}" for row in range(size)], [values], np.arange(size) < UNREADABLE, request.param)
    return paths


def test_what_is_found_is_what_exact_search_finds(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    vectors = open_stored_vectors(shards)
    build_sharded_index("IVF16,SQ8", vectors, tmp_path / "index", 2000)
    index = open_sharded_index(tmp_path / "index", vectors, probes=16)
    queries = draw(40, 9)
    found = find_nearest(index, queries, 5)
    held = np.concatenate([block for path in shards for block in iterate_vectors(path)])
    true = np.argsort(((queries[:, None].astype(np.float64) - held) ** 2).sum(axis=2) + 9 * vectors.unreadable, axis=1)[:, :5]
    assert np.array_equal(found.contents, true)
    exact = ((queries[:, None].astype(np.float64) - held[true]) ** 2).sum(axis=2)
    assert np.allclose(found.distances, exact, rtol=0, atol=1e-12)
    assert not vectors.unreadable[found.contents].any()
    assert index.ntotal == sum(SIZES) - UNREADABLE * len(SIZES)


def test_a_build_goes_on_and_a_new_shard_is_the_only_one_that_is_encoded(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = tmp_path / "index", []

    def note(path: Path) -> object:
        read.append(path)
        return iterate_vectors(path)

    folder.mkdir()
    monkeypatch.setattr(sharded, "iterate_vectors", note)
    build_sharded_index("IVF16,PQ4x4np", open_stored_vectors(shards[:2]), folder, 1000)
    codes = {path.name: path.stat().st_mtime_ns for path in folder.glob("codes-*")}
    build_sharded_index("IVF16,PQ4x4np", open_stored_vectors(shards), folder, 1000)
    assert read == shards
    assert codes.items() <= {path.name: path.stat().st_mtime_ns for path in folder.glob("codes-*")}.items()
    grown = open_sharded_index(folder, open_stored_vectors(shards), probes=16)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "quantizer.faiss").write_bytes((folder / "quantizer.faiss").read_bytes())
    build_sharded_index("IVF16,PQ4x4np", open_stored_vectors(shards), tmp_path / "again", 1000)
    at_once = open_sharded_index(tmp_path / "again", open_stored_vectors(shards), probes=16)
    assert np.array_equal(find_nearest(grown, draw(9, 5), 3).contents, find_nearest(at_once, draw(9, 5), 3).contents)
    with pytest.raises(UserError, match="indexes 1,992 vectors, the shards hold 1,194: build it again"):
        open_sharded_index(folder, open_stored_vectors(shards[:2]))


def test_shards_of_another_model_are_refused(shards: list[Path], tmp_path: Path) -> None:
    write_vectors(tmp_path / "other.h5", ["a"], [np.ones((1, 8), np.float32)])
    with pytest.raises(UserError, match=r"has 8 dimensions.*has 16.*same model"):
        open_stored_vectors([*shards, tmp_path / "other.h5"])


def test_halves_take_half_the_space_and_are_read_as_floats(tmp_path: Path) -> None:
    values = draw(4000, 0)
    for half in (False, True):
        write_vectors(tmp_path / f"{half}.h5", [str(row) for row in range(4000)], [values], half=half)
    read = read_vectors(tmp_path / "True.h5").vectors
    assert read.dtype == np.float32
    assert np.array_equal(read, values.astype(np.float16).astype(np.float32))
    saved = (tmp_path / "False.h5").stat().st_size - (tmp_path / "True.h5").stat().st_size
    assert saved == values.nbytes // 2
