from pathlib import Path

import h5py
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.formats.submission import find_submission_problems, open_submission, write_submission
from image_copies.submissions.vectors.files import Vectors


def part(prefix: str, count: int, dimensions: int = 4) -> Vectors:
    values = np.random.default_rng(0).standard_normal((count, dimensions)).astype(np.float32)
    return Vectors([f"{prefix}{i:05d}" for i in range(count)], values, np.zeros(count, bool))


def test_round_trip_sorts_by_id_and_broken_rules_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="257 dimensions; 1…256"):
        write_submission(tmp_path / "s.h5", part("Q", 2, 257), part("R", 2, 257))
    assert list(tmp_path.iterdir()) == []
    queries, references = part("Q", 3), part("R", 5)
    shuffled = queries.rows(["Q00002", "Q00000", "Q00001"])
    write_submission(tmp_path / "s.h5", shuffled, references)
    read_queries, read_references = open_submission(tmp_path / "s.h5")
    assert read_queries.ids == queries.ids and (read_queries.vectors == queries.vectors).all()
    assert read_references.ids == references.ids
    assert find_submission_problems(tmp_path / "s.h5", queries.ids, references.ids) == []


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["query"] = np.full((3, 300), np.nan, np.float32)
        file["query_ids"] = [b"Q2", b"Q1", b"Q1"]
        file["reference"] = np.zeros((2, 8), np.float64)
        file["reference_ids"] = [b"R1", b"R2", b"R3"]
    problems = "\n".join(find_submission_problems(tmp_path / "s.h5", ["Q1", "Q2", "Q3"], ["R1", "R2"]))
    for expected in (
        "query has 300 dimensions",
        "query: 3 rows hold NaN or infinity, the first is row 0 ('Q2')",
        "query_ids: 1 ids are repeated, the first is 'Q1'",
        "query_ids is not sorted: 'Q1' follows 'Q2'",
        "query_ids: 1 images have no vector, the first is 'Q3'",
        "reference is float64; expected float32",
        "reference_ids has 3 ids for 2 vectors",
        "reference_ids: 1 ids belong to no image, the first is 'R3'",
        "different dimensions",
    ):
        assert expected in problems


def test_files_that_are_no_submission(tmp_path: Path) -> None:
    assert find_submission_problems(tmp_path / "none.h5") == ["there is no such file"]
    (tmp_path / "text.h5").write_text("hello")
    assert "not a complete HDF5 file" in find_submission_problems(tmp_path / "text.h5")[0]
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    assert "query is missing, query_ids is missing" in find_submission_problems(tmp_path / "empty.h5")[0]
    write_submission(tmp_path / "s.h5", part("Q", 300), part("R", 300))
    (tmp_path / "cut.h5").write_bytes((tmp_path / "s.h5").read_bytes()[:3000])
    assert find_submission_problems(tmp_path / "cut.h5")


def test_unreadable_images_lie_far_apart(tmp_path: Path) -> None:
    queries, references = part("Q", 2), part("R", 2)
    queries.unreadable[0] = references.unreadable[1] = True
    write_submission(tmp_path / "s.h5", queries, references)
    read_queries, read_references = open_submission(tmp_path / "s.h5")
    (references_of_file,) = read_references.readable().divide(10)
    distances = ((read_queries.vectors[:, None] - references_of_file.load()[None]) ** 2).sum(axis=2)
    assert distances[1, 0] < 100 and (distances[[0, 0, 1], [0, 1, 1]] > 1e5).all()


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("query", np.float32(1), "query has the shape []"),
        ("query", np.array([[0, 0, 0, 1], [1e30, 0, 0, 0]], np.float32), "query: 1 rows have a norm above 1e+15"),
        ("query", h5py.Empty("f4"), "query has the shape []"),
        ("query", np.zeros((2, 4, 1), np.float32), "query has the shape [2, 4, 1]"),
        ("query_ids", np.int64(3), "query_ids is int64 []; expected strings [images]"),
        ("query_ids", np.arange(2), "query_ids is int64 [2]; expected strings [images]"),
        ("query_ids", np.array([[b"Q0"], [b"Q1"]]), "query_ids is |S2 [2, 1]; expected strings [images]"),
        ("query_ids", np.array([b"\xff\xfe", b"Q1"]), "an id is not UTF-8 text"),
    ],
)
def test_data_sets_of_another_form(tmp_path: Path, name: str, value: object, reported: str) -> None:
    whole = {"query": np.ones((2, 4), np.float32), "reference": np.ones((2, 4), np.float32)}
    ids = {"query_ids": np.array([b"Q0", b"Q1"]), "reference_ids": np.array([b"R0", b"R1"])}
    with h5py.File(tmp_path / "s.h5", "w") as file:
        for key, content in (whole | ids | {name: value}).items():
            file[key] = content
    assert reported in "\n".join(find_submission_problems(tmp_path / "s.h5"))
    with pytest.raises(UserError):
        open_submission(tmp_path / "s.h5")
