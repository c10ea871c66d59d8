"""Vectors of a file that are read in blocks: numbered through without unreadable images, divided, and looked up."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.vectors import files
from image_copies.submissions.vectors.files import StoredVectors, open_vectors, read_vectors, take_rows, write_vectors

SIZE = 81
UNREADABLE = np.isin(np.arange(SIZE), [0, 1, 20, *range(42, 56), SIZE - 1])


def draw(count: int) -> NDArray[np.float32]:
    return scale_to_unit_length(np.random.default_rng(count).standard_normal((count, 16)).astype(np.float32))


@pytest.fixture(params=[False, True], ids=["float32", "float16"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A vectors file with unreadable images at the beginning, at the end and in between."""
    values = draw(SIZE)
    values[UNREADABLE] = 0
    write_vectors(tmp_path / "v.h5", [f"X{row}" for row in range(SIZE)], [values], UNREADABLE, request.param)
    return tmp_path / "v.h5"


@pytest.fixture
def stored(path: Path) -> StoredVectors:
    return open_vectors(path)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_shards_number_readable_images(stored: StoredVectors, path: Path, size: int) -> None:
    held = read_vectors(path)
    assert stored.ids == held.ids and len(stored) == SIZE and stored.dimensions == 16
    assert len(stored.readable()) == len(held.readable()) == SIZE - 18
    shards = stored.readable().divide(size)
    assert [shard.first for shard in shards] == np.cumsum([0, *map(len, shards)])[:-1].tolist()
    assert np.array_equal(np.concatenate([shard.load() for shard in shards]), held.readable())
    assert all(0 < len(shard) <= size for shard in shards)


@pytest.mark.parametrize("chosen", [[3], [0, 62], [17, 18, 19, 20, 40], list(range(63))])
def test_chosen_rows_are_looked_up(stored: StoredVectors, path: Path, chosen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    held, numbers = read_vectors(path).readable(), np.array(chosen)
    monkeypatch.setattr(files, "ROWS_PER_BLOCK", 8)
    assert np.array_equal(take_rows(stored.readable(), numbers), held[numbers])
    assert np.array_equal(take_rows(held, numbers), held[numbers])


def test_a_flagged_image_is_left_out_whatever_its_vector(tmp_path: Path) -> None:
    """Other tools flag images without setting their vectors to zero."""
    values, flags = draw(5), np.array([0, 1, 0, 0, 0], bool)
    write_vectors(tmp_path / "theirs.h5", list("abcde"), [values], flags)
    (shard,) = open_vectors(tmp_path / "theirs.h5").readable().divide(10)
    assert len(shard) == 4 and np.array_equal(shard.load(), values[~flags])


def test_halves_take_half_the_space_and_are_read_as_floats(tmp_path: Path) -> None:
    values = draw(4000)
    for half in (False, True):
        write_vectors(tmp_path / f"{half}.h5", [str(row) for row in range(4000)], [values], half=half)
    read = read_vectors(tmp_path / "True.h5").vectors
    assert read.dtype == np.float32
    assert np.array_equal(read, values.astype(np.float16).astype(np.float32))
    saved = (tmp_path / "False.h5").stat().st_size - (tmp_path / "True.h5").stat().st_size
    assert saved == values.nbytes // 2
