from pathlib import Path

import pytest

from data.files import whole_file, whole_folder


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_takes_the_name(tmp_path: Path) -> None:
    with whole_file(tmp_path / "new" / "scores.json") as temporary:
        temporary.write_text("{}")
        assert not (tmp_path / "new" / "scores.json").exists()
        assert temporary.suffix == ".json"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["scores.json"]


def test_folders_too(tmp_path: Path) -> None:
    target = tmp_path / "set"
    with whole_folder(target) as temporary:
        (temporary / "a").write_text("1")
    with pytest.raises(KeyboardInterrupt), whole_folder(target) as temporary:
        (temporary / "b").write_text("2")
        raise KeyboardInterrupt
    assert [path.name for path in target.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [target]
