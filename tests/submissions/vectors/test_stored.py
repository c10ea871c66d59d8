"""Vectors in many files: numbered through without unreadable images, looked up and divided like those of one file."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.nearest import search_nearest
from image_copies.submissions.vectors.files import read_vectors, write_vectors
from image_copies.submissions.vectors.rows import open_rows
from image_copies.submissions.vectors.stored import open_stored_vectors
from tests.sending import send

SIZES = (70, 50, 81)


def draw(count: int, seed: int) -> NDArray[np.float32]:
    return scale_to_unit_length(np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32))


@pytest.fixture(params=[False, True], ids=["float32", "float16"])
def paths(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path]:
    """Three vectors files with unreadable images at the beginning, the end and in between."""
    paths = [tmp_path / f"{number:06d}.h5" for number in range(len(SIZES))]
    for number, (path, size) in enumerate(zip(paths, SIZES, strict=True)):
        values, unreadable = draw(size, number), np.isin(np.arange(size), [0, 1, 20, 41, 42, size - 1])
        values[unreadable] = 0
        write_vectors(path, [f"{number}-{row}" for row in range(size)], [values], unreadable, request.param)
    return paths


def test_numbers_count_readable_images(paths: list[Path]) -> None:
    stored = open_stored_vectors(paths)
    held = np.concatenate([read_vectors(path).readable() for path in paths])
    assert len(stored) == len(held) == sum(SIZES) - 6 * len(SIZES)
    assert np.array_equal(stored.rows(np.arange(len(held))), held)
    assert np.array_equal(stored.rows(np.array([150, 3, 64, 3])), held[[150, 3, 64, 3]])
    assert np.array_equal(stored.sample(1000), held) and len(stored.sample(9, 4)) == 9
    assert np.array_equal(send(stored).rows(np.arange(9)), held[:9])
    for size in (1, 7, 1000):
        shards = stored.divide(size)
        assert [shard.first for shard in shards] == np.cumsum([0, *map(len, shards)])[:-1].tolist()
        assert np.array_equal(np.concatenate([shard.load() for shard in shards]), held)
        assert max(shard.stop - shard.start for shard in shards) <= size
    assert stored.divide(7)[:3] == open_rows(paths[0]).divide(7)[:3]


def test_many_files_are_searched_like_one(paths: list[Path]) -> None:
    held = np.concatenate([read_vectors(path).readable() for path in paths])
    queries = draw(12, 9)
    (values, numbers), expected = (search_nearest(queries, where, 5, "distance") for where in (open_stored_vectors(paths), held))
    assert np.array_equal(values, expected[0]) and np.array_equal(numbers, expected[1])


def test_vectors_of_another_model_are_refused(paths: list[Path], tmp_path: Path) -> None:
    write_vectors(tmp_path / "other.h5", ["a"], [np.ones((1, 8), np.float32)])
    with pytest.raises(UserError, match=r"has 8 dimensions.*has 16.*same model"):
        open_stored_vectors([*paths, tmp_path / "other.h5"])


def test_halves_take_half_the_space_and_are_read_as_floats(tmp_path: Path) -> None:
    values = draw(4000, 0)
    for half in (False, True):
        write_vectors(tmp_path / f"{half}.h5", [str(row) for row in range(4000)], [values], half=half)
    read = read_vectors(tmp_path / "True.h5").vectors
    assert read.dtype == np.float32
    assert np.array_equal(read, values.astype(np.float16).astype(np.float32))
    saved = (tmp_path / "False.h5").stat().st_size - (tmp_path / "True.h5").stat().st_size
    assert saved == values.nbytes // 2
