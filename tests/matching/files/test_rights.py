"""Folders that a user may not change or look into: what lies there stays, the reason is named, the rest is dealt with.

The work is done by a process of a user without rights, because root may do anything: uid 65534 where the tests run as root.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest

from image_copies.data.errors import UserError
from image_copies.data.sources.discovery import Discovered, discover
from image_copies.matching import results  # noqa: F401 - before the rights are dropped: python may be root's
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.journal import Way
from image_copies.matching.files.moving import digest_if_regular
from image_copies.matching.files.plan import PlanRow, write_plan
from image_copies.pipeline.match import main
from tests.folders import read_tree

NOBODY = 65534
T = TypeVar("T")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rights are tried with POSIX users")


def become_nobody() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def without_rights(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function as a user who is not root; its errors are raised here."""
    with get_context("fork").Pool(1, become_nobody) as pool:
        return pool.apply(work, arguments)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the other user's, outside pytest's own, into which nobody else may look."""
    made = Path(tempfile.mkdtemp()).resolve()
    monkeypatch.setattr(tempfile, "tempdir", str(made))  # the lock of all plans: tests run side by side
    monkeypatch.setenv("XDG_DATA_HOME", str(made / "data"))
    monkeypatch.chdir(made)
    yield made
    for folder in (made, *(path for path in made.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    shutil.rmtree(made)


def give_to_nobody(folder: Path) -> None:
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def make_album(home: Path) -> Path:
    """Three groups of two files: in a free folder, in one that may not be changed, and in one that may not be looked into."""
    rows = []
    for number, name in enumerate(("free", "locked", "closed"), 1):
        kept, copy = home / "album" / "kept" / f"{name}.jpg", home / "album" / name / "copy.jpg"
        for path in (kept, copy):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"picture {name}".encode())
        digest = digest_if_regular(copy)
        rows.append(PlanRow(number, "keep", kept, kept, "", None, picture_facts(kept), False, digest))
        rows.append(PlanRow(number, "remove", copy, kept, "", 0.0, picture_facts(copy), False, digest))
    (home / "matches").mkdir()
    write_plan(home / "matches" / "plan.csv", rows)
    give_to_nobody(home)
    (home / "album" / "locked").chmod(0o555)
    (home / "album" / "closed").chmod(0)
    return home / "album"


def tree(folder: Path) -> dict[str, bytes]:
    """Every file and link below the folder and what it holds, seen by the tests' own user."""
    modes = {path: path.stat().st_mode for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()}
    for path in modes:
        path.chmod(0o755)
    found = read_tree(folder)
    for path, mode in modes.items():
        path.chmod(mode)
    return found


@pytest.mark.parametrize("way", get_args(Way))
def test_without_the_right_to_delete_everything_stays(home: Path, way: Way, capfd: pytest.CaptureFixture[str]) -> None:
    album = make_album(home)
    before = tree(album)
    assert without_rights(main, ["--apply", way]) == 1
    printed = capfd.readouterr().out
    assert f"left alone: {album / 'locked' / 'copy.jpg'}: it cannot be removed from its folder" in printed
    assert f"left alone: {album / 'closed' / 'copy.jpg'}: " in printed and "Permission denied" in printed
    assert f"{way}: 1 file done, 2 left alone" in printed
    now = tree(album)
    assert {name: content for name, content in now.items() if "free" not in name}.items() <= before.items()
    assert set(tree(home).values()) >= set(before.values()) and len(list(home.rglob("*.trashinfo"))) <= 1
    assert without_rights(main, ["--undo"]) == 0 and tree(album) == before


def test_what_cannot_be_put_back_stays_where_it_is_and_can_be_undone_later(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    album = make_album(home)
    before = tree(album)
    assert without_rights(main, ["--apply", "move"]) == 1
    (album / "free").chmod(0o555)
    moved = tree(home)
    assert without_rights(main, ["--undo"]) == 1 and "Permission denied" in capfd.readouterr().out
    assert {name: content for name, content in tree(home).items() if "journal" not in name}.items() <= moved.items()
    (album / "free").chmod(0o755)
    assert without_rights(main, ["--undo"]) == 0 and tree(album) == before


def test_a_place_that_may_not_be_written_is_named(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    album = make_album(home)
    before = tree(album)
    (home / "matches").chmod(0o555)
    with pytest.raises(UserError, match=r"journal\.jsonl cannot be written .* Nothing has been touched"):
        without_rights(main, ["--apply", "move"])
    (home / "matches").chmod(0o755)
    (home / "shut").mkdir(mode=0o555)
    assert without_rights(main, ["--apply", "move", "--to", str(home / "shut")]) == 1
    assert f"Permission denied: {home / 'shut'}" in capfd.readouterr().out and tree(album) == before


def test_folders_and_files_that_may_not_be_read_are_counted(home: Path) -> None:
    album = make_album(home)
    (album / "names only").mkdir()
    (album / "names only" / "hidden.jpg").write_bytes(b"picture")
    (album / "shut.jpg").write_bytes(b"picture")
    (album / "old.zip").write_bytes(b"no archive")
    give_to_nobody(album)
    (album / "names only").chmod(0o444)
    for name in ("shut.jpg", "old.zip"):
        (album / name).chmod(0)
    found: Discovered = without_rights(discover, [album])
    assert {path.name for path in found.paths} == {"free.jpg", "locked.jpg", "closed.jpg", "copy.jpg", "shut.jpg"}
    assert found.skipped == {
        "cannot be opened": [album / "names only" / "hidden.jpg"],
        "an archive that cannot be read": [album / "old.zip"],
        "a folder that cannot be opened": [album / "closed"],
    }
    for path in (album / "closed" / "copy.jpg", album / "names only" / "hidden.jpg", album / "shut.jpg"):
        assert without_rights(picture_facts, path).width == 0
