"""Files of vectors: whole or refused, read in blocks, joined side by side."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.vectors import files
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import (
    StoredVectors,
    Vectors,
    describe_repeated,
    find_repeated,
    hash_rows,
    iterate_vectors,
    open_vectors,
    read_vectors,
    take_rows,
    write_vectors,
)


def test_blocks_go_there_and_back_with_marks_that_are_filled_meanwhile(tmp_path: Path) -> None:
    values = np.arange(20, dtype=np.float32).reshape(10, 2)
    marks = np.array([False] * 9 + [True])
    write_vectors(tmp_path / "v.h5", [f"ü{i}" for i in range(10)], [values[:4], values[4:]], marks)
    read = read_vectors(tmp_path / "v.h5")
    assert read.ids[3] == "ü3" and (read.vectors == values).all() and read.unreadable[9]
    assert [len(block) for block in iterate_vectors(tmp_path / "v.h5", 4)] == [4, 4, 2]
    assert (read.rows(["ü7", "ü2"]).vectors == values[[7, 2]]).all()
    assert len(read.readable()) == 9
    marks = np.zeros(4, bool)

    def blocks() -> Iterator[np.ndarray]:
        yield np.ones((2, 3), np.float32)
        marks[3] = True
        yield np.full((2, 3), 2, np.float32)

    write_vectors(tmp_path / "v.h5", ["a", "b", "c", "d"], blocks(), marks)
    assert read_vectors(tmp_path / "v.h5").unreadable.tolist() == [False, False, False, True]


def test_rows_and_ids_must_agree_and_missing_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 vectors for 3 ids"):
        write_vectors(tmp_path / "v.h5", ["a", "b", "c"], [np.zeros((2, 2), np.float32)])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="no such file"):
        read_vectors(tmp_path / "v.h5")
    (tmp_path / "v.h5").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="not a complete HDF5 file"):
        read_vectors(tmp_path / "v.h5")
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["other"] = [1]
    with pytest.raises(UserError, match="no data set 'ids'"):
        read_vectors(tmp_path / "w.h5")


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        (["a", "b"], np.array([[1, np.nan], [1, 1]], np.float32), r"hold NaN or infinity, or .*, the first is row 0 \('a'\)"),
        (["a", "b"], np.array([[1, 1], [0, 0]], np.float32), r"zero without being flagged unreadable, .* row 1 \('b'\)"),
        (["a", "b"], np.array([[1, 1], [1e30, 0]], np.float32), r"v\.h5: 1 of the rows .* above 1e\+15, .* row 1 \('b'\)"),
        (["a", "a"], np.zeros((2, 2), np.float32), "repeated ids"),
        (["a"], np.zeros((2, 2), np.float32), "1 ids but 2 vectors"),
        (["a", "b"], np.zeros((2, 2)), "expected float32"),
    ],
)
def test_wrong_files(tmp_path: Path, ids: list[str], values: np.ndarray, message: str) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["ids"], file["vectors"] = ids, values
    with pytest.raises(UserError, match=message):
        read_vectors(tmp_path / "v.h5")


def test_ids_of_another_form(tmp_path: Path) -> None:
    for number, ids in enumerate((np.int64(3), np.arange(2), h5py.Empty("S3"))):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["ids"], file["vectors"] = ids, np.ones((2, 4), np.float32)
        with pytest.raises(UserError, match=rf"{number}\.h5: ids are .*expected strings .*one for each vector"):
            read_vectors(tmp_path / f"{number}.h5")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_flags_that_are_not_one_for_each_vector_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    write_vectors(tmp_path / "v.h5", ["a", "b"], [np.ones((2, 2), np.float32)])
    with h5py.File(tmp_path / "v.h5", "r+") as file:
        file.pop("unreadable", None)
        file["unreadable"] = np.zeros(shape, bool)
    with pytest.raises(UserError, match="expected one for each of its 2 vectors"):
        open_vectors(tmp_path / "v.h5")


def write_file(folder: Path, name: str, ids: list[str], dimensions: int, unreadable: list[bool] | None = None) -> Path:
    values = np.random.default_rng(dimensions).standard_normal((len(ids), dimensions)).astype(np.float32)
    write_vectors(folder / name, ids, [values], np.array(unreadable) if unreadable else None)
    return folder / name


def test_models_stand_side_by_side_in_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"T{i}" for i in range(10)]
    one, two = write_file(tmp_path, "1.h5", ids, 3), write_file(tmp_path, "2.h5", ids, 4, [False] * 9 + [True])
    joined = open_concatenated([one, two])
    assert joined.dimensions == 7 and joined.unreadable.tolist() == [False] * 9 + [True]
    whole = np.concatenate([read_vectors(path).vectors for path in (one, two)], axis=1)
    assert (np.concatenate(list(joined.blocks(4))) == whole).all()
    monkeypatch.setattr(ConcatenatedVectors.blocks, "__defaults__", (2,))
    blocks = list(joined.blocks_of(np.array([2, 6, 7])))
    assert [len(block) for block in blocks] == [1, 2] and (np.concatenate(blocks) == whole[[2, 6, 7]]).all()
    assert len(joined.choose_rows(100)) == 9 and len(joined.choose_rows(5)) == 5
    assert (joined.choose_rows(5, seed=1) == joined.choose_rows(5, seed=1)).all()
    assert joined.choose_rows(100, among=np.array([1, 8, 9])).tolist() == [1, 8]


def test_images_without_a_vector_and_different_images_are_named(tmp_path: Path) -> None:
    joined = open_concatenated([write_file(tmp_path, f"{number}.h5", ["a", "b", "c"], 3) for number in (1, 2, 3)])
    assert joined.rows_of(["c", "a"]).tolist() == [2, 0]
    with pytest.raises(UserError, match=r"1\.h5 and 2 more: 2 images have no vector, the first is 'x'\. Embed them \(step 02\)"):
        joined.rows_of(["b", "x", "y"])
    one = write_file(tmp_path, "1.h5", ["a", "b", "c"], 3)
    with pytest.raises(UserError, match=r"1.h5 \(3 images\) and .*2.h5 \(3 images\) .*, first difference 'b' / 'x'"):
        open_concatenated([one, write_file(tmp_path, "2.h5", ["a", "x", "c"], 3)])
    with pytest.raises(UserError, match=r"\(2 images\) hold different images\. "):
        open_concatenated([one, write_file(tmp_path, "3.h5", ["a", "b"], 3)])


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


def test_flagged_images_are_left_out_and_halves_take_half_the_space(tmp_path: Path) -> None:
    """Other tools flag images without setting their vectors to zero."""
    values, flags = draw(5), np.array([0, 1, 0, 0, 0], bool)
    write_vectors(tmp_path / "theirs.h5", list("abcde"), [values], flags)
    (shard,) = open_vectors(tmp_path / "theirs.h5").readable().divide(10)
    assert len(shard) == 4 and np.array_equal(shard.load(), values[~flags])
    values = draw(4000)
    for half in (False, True):
        write_vectors(tmp_path / f"{half}.h5", [str(row) for row in range(4000)], [values], half=half)
    read = read_vectors(tmp_path / "True.h5").vectors
    assert read.dtype == np.float32
    assert np.array_equal(read, values.astype(np.float16).astype(np.float32))
    saved = (tmp_path / "False.h5").stat().st_size - (tmp_path / "True.h5").stat().st_size
    assert saved == values.nbytes // 2


@pytest.mark.parametrize("seed", range(20))
def test_repeated_rows_are_those_of_a_literal_search(seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(-1, 2, (40, 3)).astype(np.float32)
    expected = [(row, next(at for at in range(row + 1) if (vectors[at] == vectors[row]).all())) for row in range(40)]
    rows, firsts = find_repeated(hash_rows(vectors))
    assert list(zip(rows.tolist(), firsts.tolist(), strict=True)) == [pair for pair in expected if pair[0] != pair[1]]


def test_zero_and_repeated_vectors_are_described_and_few_equal_ones_are_those_of_equal_files() -> None:
    values = np.array([[1, 0], [0, 1], [1, 0], [0, 0], [0, 0]], np.float32)
    part = Vectors(list("abcde"), values, np.array([0, 0, 0, 0, 1], bool))
    zero, repeated = describe_repeated("query", part)
    assert zero == "query: 1 vectors are zero, the first is that of 'd'"
    assert "1 of 4 vectors repeat that of an earlier image, such as 'c' that of 'a'" in repeated and "collapsed" in repeated
    assert describe_repeated("query", Vectors(["a", "b"], values[:2], np.zeros(2, bool))) == []
    assert describe_repeated("query", Vectors([], values[:0], np.zeros(0, bool))) == []
    values = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    values[7] = values[3]
    (said,) = describe_repeated("reference", Vectors([str(row) for row in range(50)], values, np.zeros(50, bool)))
    assert "such as '7' that of '3': equal files" in said
