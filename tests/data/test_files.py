"""Files appear whole or not at all, and no command replaces what is not its own."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.files import HOST, whole_file, whole_folder
from image_copies.data.targets import begins_with, check_target, check_target_folder


def test_a_finished_file_gets_its_name_and_a_failed_one_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(tmp_path / "new" / "scores.json") as temporary:
        temporary.write_text("{}")
        assert not (tmp_path / "new" / "scores.json").exists()
        assert temporary.suffix == ".json"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["scores.json"]


def test_a_failed_write_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "set"
    with whole_folder(target) as temporary:
        (temporary / "a").write_text("1")
    with pytest.raises(KeyboardInterrupt), whole_folder(target) as temporary:
        (temporary / "b").write_text("2")
        raise KeyboardInterrupt
    assert [path.name for path in target.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_names_the_file_also_before_a_byte_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a temporary name or a folder could be made: a traceback."""
    full = pytest.raises(UserError, match=r"cache\.pixels cannot be written: the disk is full after 2\.1 MB of it.*make room")
    with full, whole_file(tmp_path / "cache.pixels") as temporary:
        temporary.write_bytes(bytes(2**21))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("image_copies.data.files.tempfile.mkdtemp", fail)
    for write in (whole_file, whole_folder):
        with pytest.raises(UserError, match="vectors cannot be written: the disk is full"), write(tmp_path / "vectors"):
            pass


def test_a_full_disk_names_the_folder_and_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message named nothing, and where the second of two renames failed there was neither folder."""
    target = tmp_path / "report"
    with whole_folder(target) as temporary:
        (temporary / "old").touch()
    full = pytest.raises(UserError, match=r"report cannot be written: the disk is full\. .*make room")
    with full, whole_folder(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    replace = Path.replace

    def fail_for_the_new(path: Path, place: Path) -> Path:
        if place == target and not (path / "old").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, place)

    monkeypatch.setattr(Path, "replace", fail_for_the_new)
    with full, whole_folder(target):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["report", "old"]


WRITER = """
import os, sys
from pathlib import Path
from image_copies.data.files import whole_file, whole_folder
with whole_file(Path(sys.argv[1]) / "a.h5"), whole_folder(Path(sys.argv[1]) / "b"):
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], cwd=Path(__file__).parents[2])
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 2
    with whole_file(tmp_path / "c.h5"), whole_file(tmp_path / "c.h5"):  # what this process writes stays
        assert len(list(tmp_path.iterdir())) == 2 and left.isdisjoint(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_what_another_user_or_writer_has_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """What a killed write of another user left, or another process removes, and a folder that one may not move away."""
    subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], cwd=Path(__file__).parents[2])
    (tmp_path / f".c.{HOST}-4194305-x.part").touch()
    target = tmp_path / "report"
    target.mkdir()
    (target / "old").touch()
    replace = Path.replace

    def replace_here(path: Path, place: Path) -> Path:
        if path == target and place.parent != path.parent:
            raise error
        return replace(path, place)

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "replace", replace_here)
    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, refuse)
    with whole_folder(target) as temporary:
        (temporary / "new").touch()
    assert [path.name for path in target.iterdir()] == ["new"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files here")
def test_bytes_reach_the_disk_before_the_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    flush, replace = os.fsync, Path.replace

    def noted_flush(handle: int) -> None:
        done.append(("flush", str(Path(f"/proc/self/fd/{handle}").readlink())))
        flush(handle)

    def noted_replace(path: Path, target: Path) -> Path:
        done.append(("rename", str(target)))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(Path, "replace", noted_replace)
    with whole_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("1")
    assert done == [("flush", str(temporary)), ("rename", str(tmp_path / "a.txt")), ("flush", str(tmp_path))]
    done.clear()
    with whole_folder(tmp_path / "b") as temporary:
        (temporary / "c").write_text("1")
    names = [
        ("flush", str(temporary / "c")),
        ("flush", str(temporary)),
        ("rename", str(tmp_path / "b")),
        ("flush", str(tmp_path)),
    ]
    assert done == names


KILLED = """
import os, sys
from pathlib import Path
from image_copies.data.files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.with_name(".tmpABCDEF").write_bytes(b"half")
    os._exit(9)
"""


def test_what_a_killed_library_leaves_beside_a_file_is_removed(tmp_path: Path) -> None:
    path, states = tmp_path / "a.bin", list[int]()
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == 9
    assert len(list(tmp_path.rglob(".tmpABCDEF"))) == 1
    for _ in range(2):  # a new file, then a private one
        with whole_file(path) as temporary:
            temporary.with_name(".tmpABCDEF").write_bytes(b"whole")
            temporary.with_name(".tmpABCDEF").replace(temporary)
        assert list(tmp_path.rglob("*")) == [path] and path.read_bytes() == b"whole"
        states.append(path.stat().st_mode & 0o777)
        path.chmod(0o600)
    mask = os.umask(0)
    os.umask(mask)
    assert states == [0o666 & ~mask, 0o600]


KINDS = {".csv": begins_with(b"query_id,")}


def test_nothing_but_an_older_file_of_its_own_is_replaced_no_folder_and_no_input(tmp_path: Path) -> None:
    check_target(tmp_path / "new.csv", "--output", KINDS)
    for name, content in {"own.csv": "query_id,reference_id\n", "empty.csv": "", "OTHER.CSV": "query_id,x"}.items():
        (tmp_path / name).write_text(content)
        check_target(tmp_path / name, "--output", KINDS)
    (tmp_path / "foreign.csv").write_text("name,age\n")
    with pytest.raises(UserError, match=r"--output .*foreign\.csv exists and does not hold what this command writes"):
        check_target(tmp_path / "foreign.csv", "--output", KINDS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match="is not a file"):
        check_target(tmp_path / "folder.csv", "--output", KINDS)
    (tmp_path / "a.csv").write_text("query_id,")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    for one, other in (("a.csv", "link.csv"), ("link.csv", "a.csv"), ("a.csv", "a.csv")):
        with pytest.raises(UserError, match="is read by this command"):
            check_target(tmp_path / one, "--output", KINDS, [None, Path(os.path.relpath(tmp_path / other))])


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.csv.txt"])
def test_another_ending_is_refused_also_of_a_new_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end in \.csv"):
        check_target(tmp_path / name, "--output", KINDS)


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
