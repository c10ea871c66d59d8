"""Which trash a file goes to, and under which name."""

import os
from pathlib import Path

import pytest

from image_copies.matching.files.moving import find_trash

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="this trash is that of POSIX systems")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a disk of its own, which has no home."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/none")
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path) == tmp_path)
    (tmp_path / "a.jpg").write_bytes(b"picture")
    return tmp_path


def test_a_disk_has_a_trash_for_each_user(disk: Path) -> None:
    own = disk / f".Trash-{os.getuid()}"
    assert find_trash(disk / "a.jpg", disk / "spare") == own
    own.mkdir()
    assert find_trash(disk / "a.jpg", disk / "spare") == own


def test_a_trash_that_somebody_else_made_is_not_used(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = disk / f".Trash-{os.getuid()}"
    (disk / "theirs").mkdir()
    own.symlink_to(disk / "theirs")
    assert find_trash(disk / "a.jpg", disk / "spare") == disk / "spare"
    own.unlink()
    own.mkdir()
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    own.rename(disk / f".Trash-{user + 1}")
    assert find_trash(disk / "a.jpg", disk / "spare") == disk / "spare"
