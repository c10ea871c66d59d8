from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth, write_ground_truth


def test_round_trip_with_several_references_and_distractors(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    write_ground_truth(path, [("Q1", "R1"), ("Q0", None), ("Q1", "R2")])
    truth = read_ground_truth(path)
    assert truth.query_ids == ["Q1", "Q0"]
    assert truth.pairs == {("Q1", "R1"), ("Q1", "R2")}


def test_ids_stay_strings(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text("query_id,reference_id\n007,NA\n008,\n")
    truth = read_ground_truth(path)
    assert truth.query_ids == ["007", "008"] and truth.pairs == {("007", "NA")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query,reference\nQ,R\n", "has the columns query,reference"),
        ("query_id,reference_id\n", "contains no rows"),
        ("query_id,reference_id\n,R1\n", "line 2: the query id is empty"),
    ],
)
def test_wrong_files_get_one_message(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "truth.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_ground_truth(path)
