import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file, whole_file_apart, whole_folder


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_finished_file_gets_its_name(tmp_path: Path) -> None:
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


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    full = pytest.raises(UserError, match=r"cache\.pixels cannot be written: the disk is full after 2\.1 MB of it.*make room")
    with full, whole_file(tmp_path / "cache.pixels") as temporary:
        temporary.write_bytes(bytes(2**21))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


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


def test_a_full_disk_is_named_before_a_byte_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a temporary name or a folder could be made: a traceback."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("mkstemp", "mkdtemp"):
        monkeypatch.setattr(f"image_copies.data.files.tempfile.{name}", fail)
    for write in (whole_file, whole_folder):
        with pytest.raises(UserError, match="vectors cannot be written: the disk is full"), write(tmp_path / "vectors"):
            pass


WRITER = """
import os, sys
from pathlib import Path
from image_copies.data.files import whole_file, whole_file_apart, whole_folder
with whole_file(Path(sys.argv[1]) / "a.h5"), whole_folder(Path(sys.argv[1]) / "b"):
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], cwd=Path(__file__).parents[2])
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 2
    with whole_file(tmp_path / "c.h5"), whole_file(tmp_path / "c.h5"):  # what this process writes stays
        assert len(list(tmp_path.iterdir())) == 2 and left.isdisjoint(path.name for path in tmp_path.iterdir())


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
from image_copies.data.files import whole_file_apart
with whole_file_apart(Path(sys.argv[1])) as temporary:
    temporary.with_name(".tmpABCDEF").write_bytes(b"half")
    os._exit(9)
"""


def test_what_a_killed_library_leaves_beside_a_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == 9
    assert len(list(tmp_path.rglob(".tmpABCDEF"))) == 1
    with whole_file_apart(path) as temporary:
        temporary.with_name(".tmpABCDEF").write_bytes(b"whole")
        temporary.with_name(".tmpABCDEF").replace(temporary)
    assert list(tmp_path.rglob("*")) == [path] and path.read_bytes() == b"whole"
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
