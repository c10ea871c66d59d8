from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.tables import read_table


def test_values_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,label\n007,NA\n8,\n")
    assert read_table(path, ["id", "label"], "a CSV").to_numpy().tolist() == [["007", "NA"], ["8", ""]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"t\.csv: no such file\. Give a CSV of labels\."),
        ("id\n1\n", "has the columns id; expected id,label"),
        ("id,label\n1,x,y\n", "more values than the columns id,label"),
        ("id,label\n1,x\n2,x,y\n", "is not a CSV file that can be read"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "t.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_table(path, ["id", "label"], "a CSV of labels")
