import os
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.targets import begins_with, check_target, check_target_folder

KINDS = {".csv": begins_with(b"query_id,")}


def test_nothing_but_an_older_file_of_its_own_is_replaced(tmp_path: Path) -> None:
    check_target(tmp_path / "new.csv", "--output", KINDS)
    for name, content in {"own.csv": "query_id,reference_id\n", "empty.csv": "", "OTHER.CSV": "query_id,x"}.items():
        (tmp_path / name).write_text(content)
        check_target(tmp_path / name, "--output", KINDS)
    (tmp_path / "foreign.csv").write_text("name,age\n")
    with pytest.raises(UserError, match=r"--output .*foreign\.csv exists and does not hold what this command writes"):
        check_target(tmp_path / "foreign.csv", "--output", KINDS)


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.csv.txt"])
def test_another_ending_is_refused_also_of_a_new_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end in \.csv"):
        check_target(tmp_path / name, "--output", KINDS)


def test_folders_and_inputs_are_refused_also_through_links(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match="is not a file"):
        check_target(tmp_path / "folder.csv", "--output", KINDS)
    (tmp_path / "a.csv").write_text("query_id,")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    for one, other in (("a.csv", "link.csv"), ("link.csv", "a.csv"), ("a.csv", "a.csv")):
        with pytest.raises(UserError, match="is read by this command"):
            check_target(tmp_path / one, "--output", KINDS, [None, Path(os.path.relpath(tmp_path / other))])


def test_a_folder_is_written_into_if_the_command_made_it_or_nothing_there_would_be_replaced(tmp_path: Path) -> None:
    check_target_folder(tmp_path / "new", "--output", ["mark"])
    check_target_folder(tmp_path, "--output", ["mark"])
    (tmp_path / "plan.csv").write_text("of the garden")
    check_target_folder(tmp_path, "--output", ["mark"], ["matches.csv"])
    with pytest.raises(UserError, match=r"holds plan\.csv.*Choose another --output"):
        check_target_folder(tmp_path, "--output", ["mark"], ["matches.csv", "plan.csv"])
    with pytest.raises(UserError, match=r"holds plan\.csv"):
        check_target_folder(tmp_path, "--output", ["mark"])
    (tmp_path / "mark").touch()
    check_target_folder(tmp_path, "--output", ["mark"], ["plan.csv"])
