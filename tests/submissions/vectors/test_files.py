from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.vectors.files import iterate_vectors, open_vectors, read_vectors, write_vectors


def test_round_trip_in_blocks(tmp_path: Path) -> None:
    values = np.arange(20, dtype=np.float32).reshape(10, 2)
    marks = np.array([False] * 9 + [True])
    write_vectors(tmp_path / "v.h5", [f"ü{i}" for i in range(10)], [values[:4], values[4:]], marks)
    read = read_vectors(tmp_path / "v.h5")
    assert read.ids[3] == "ü3" and (read.vectors == values).all() and read.unreadable[9]
    assert [len(block) for block in iterate_vectors(tmp_path / "v.h5", 4)] == [4, 4, 2]
    assert (read.rows(["ü7", "ü2"]).vectors == values[[7, 2]]).all()
    assert len(read.readable()) == 9


def test_rows_and_ids_must_agree(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 vectors for 3 ids"):
        write_vectors(tmp_path / "v.h5", ["a", "b", "c"], [np.zeros((2, 2), np.float32)])
    assert list(tmp_path.iterdir()) == []


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


def test_missing_damaged_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_vectors(tmp_path / "v.h5")
    (tmp_path / "v.h5").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="not a complete HDF5 file"):
        read_vectors(tmp_path / "v.h5")
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["other"] = [1]
    with pytest.raises(UserError, match="no data set 'ids'"):
        read_vectors(tmp_path / "w.h5")


def test_marks_may_be_filled_while_blocks_are_made(tmp_path: Path) -> None:
    marks = np.zeros(4, bool)

    def blocks() -> Iterator[np.ndarray]:
        yield np.ones((2, 3), np.float32)
        marks[3] = True
        yield np.full((2, 3), 2, np.float32)

    write_vectors(tmp_path / "v.h5", ["a", "b", "c", "d"], blocks(), marks)
    assert read_vectors(tmp_path / "v.h5").unreadable.tolist() == [False, False, False, True]


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
