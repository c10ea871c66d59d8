"""Tables of ids: values stay text, and what is wrong is named."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth, read_table, write_ground_truth, write_table


def test_ids_and_values_stay_text_with_several_references_and_distractors(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    write_ground_truth(path, [("Q1", "R1"), ("Q0", None), ("Q1", "R2")])
    truth = read_ground_truth(path)
    assert truth.query_ids == ["Q1", "Q0"]
    assert truth.pairs == {("Q1", "R1"), ("Q1", "R2")}
    path = tmp_path / "truth.csv"
    path.write_text("query_id,reference_id\n007,NA\n008,\n")
    truth = read_ground_truth(path)
    assert truth.query_ids == ["007", "008"] and truth.pairs == {("007", "NA")}
    path = tmp_path / "t.csv"
    path.write_text("id,label\n007,NA\n8,\n")
    assert read_table(path, ["id", "label"], "a CSV") == [["007", "NA"], ["8", ""]]


def read_labels(path: Path) -> list[list[str]]:
    return read_table(path, ["id", "label"], "a CSV of labels")


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_ground_truth, "query,reference\nQ,R\n", "has the columns query,reference"),
        (read_ground_truth, "query_id,reference_id\n", "contains no rows"),
        (read_ground_truth, "query_id,reference_id\n,R1\n", "line 2: the query id is empty"),
        (read_labels, None, r"t\.csv: no such file\. Give a CSV of labels\."),
        (read_labels, "id\n1\n", "has the columns id; expected id,label"),
        (read_labels, "id,label\n1,x,y\n", "more values than the columns id,label"),
        (read_labels, 'id,label\n1,"x\n', "is not a CSV file that can be read"),
    ],
)
def test_wrong_files_get_one_message(tmp_path: Path, read: Callable[[Path], object], content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "t.csv")


def test_a_name_that_breaks_lines_is_quoted(tmp_path: Path) -> None:
    """Python 3.12.1 quotes what ends the lines, and no other breaks, and then refuses to read them."""
    names = ["a\rb.jpg", "a\nb.jpg", "a\r\n", 'a",b', "plain"]
    write_table(tmp_path / "t.csv", ["file", "n"], [(name, 1) for name in names])
    content = (tmp_path / "t.csv").read_bytes()
    assert content.startswith(b'file,n\n"a\rb.jpg",1\n') and content.endswith(b"plain,1\n")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == ["file", *names]
