"""Acting on a plan loses nothing: files are counted before and after, with kills at any moment, full disks, missing rights."""

import errno
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.data.sources.discovery import SET_ASIDE, discover
from image_copies.matching.files import acting, journal, moving
from image_copies.matching.files.companions import find_companions
from image_copies.matching.files.facts import Facts
from image_copies.matching.files.journal import Journal, Way
from image_copies.matching.files.moving import relocate
from image_copies.matching.files.plan import PlanRow, read_plan, write_plan
from image_copies.matching.verification.judgement import Judgement
from tests.albums import Killed, apply, kill, kill_at, undo
from tests.folders import read_tree

WAYS: list[Way] = ["move", "hardlink", "symlink", "delete-to-trash"]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def contents(folder: Path) -> Counter[bytes]:
    """How many files hold what, hard links of one file counted once."""
    inodes = {path.stat().st_ino: path.read_bytes() for path in folder.rglob("*.jpg") if path.is_file() and not path.is_symlink()}
    return Counter(inodes.values())


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """album/: two groups of three files each; the trash lies beside it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for group in (1, 2):
        for name in ("keep", "copy", "small"):
            path = tmp_path / "album" / str(group) / f"{name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"{group} {name}".encode())
    return tmp_path / "album"


def plan_of(album: Path) -> list[PlanRow]:
    rows = []
    for folder in sorted(album.iterdir()):
        kept = folder / "keep.jpg"
        for path in sorted(folder.glob("*.jpg"), key=lambda path: path != kept):
            action: Any = "keep" if path == kept else "remove"
            rows.append(PlanRow(int(folder.name), action, path, kept, "", None, None, False, digest(path.read_bytes())))
    return rows


def facts_of(file: Path, *companions: str) -> Facts:
    return Facts(file, 40, 30, 1000, 10**18, "2020-01-02 03:04:05", "JPEG", 7.5, False, False, False, companions=companions)


def with_companions(album: Path, own: Path) -> list[PlanRow]:
    """The album's plan; next to a picture lie its film and its notes."""
    rows, names = plan_of(album), (f"{own.stem}.mov", f"{own.stem}.xmp")
    for name in names:
        (album / "1" / name).write_text("its own")
    return [replace(row, facts=facts_of(own, *names)) if row.file == own else row for row in rows]


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_is_carried_out_and_undone(album: Path, way: Way) -> None:
    before, all_contents = read_tree(album), contents(album.parent)
    rows = plan_of(album)
    outcome = apply(album, rows, way)
    assert len(outcome.done) == 4 and not outcome.left
    assert contents(album.parent) == all_contents
    for row in rows:
        if row.action == "keep":
            assert row.file.read_bytes() == before[str(row.file.relative_to(album))]
        elif way in ("move", "delete-to-trash"):
            assert not os.path.lexists(row.file)
        else:
            assert row.file.samefile(row.kept) and row.file.is_symlink() == (way == "symlink")
    notes = list((album.parent / "data" / "Trash" / "info").glob("*"))
    assert len(notes) == (0 if way == "move" else 4)
    again = apply(album, rows, way)
    assert not again.done and not again.left
    outcome = undo(album)
    assert len(outcome.done) == 4 and not outcome.left and read_tree(album) == before
    assert not list((album.parent / "data").rglob("*.trashinfo")) and contents(album.parent) == all_contents
    assert undo(album).done == []
    assert len(apply(album, rows, way).done) == 4


def test_what_belongs_together_stays_together_after_a_kill_though_it_was_called_no_copy_since(
    album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What belongs to a picture that has gone follows, also where it was still at its old path, too."""
    before, rows, left = read_tree(album), with_companions(album, album / "1" / "copy.jpg"), list[int]()
    called = {frozenset(bytes.fromhex(digest(before[f"1/{name}.jpg"])) for name in ("keep", "copy"))}
    for at in range(1, 8):
        with monkeypatch.context() as patched, suppress(Killed):
            kill_at(patched, at)
            apply(album, rows, "move")
        apply(album, rows, "move", rejected=called)
        left.append(len(list((album / "1").glob("copy.*"))))
        undo(album)
    assert left == [3, 3, 0, 0, 0, 0, 0]


KILLED = [(way, "") for way in WAYS] + [(way, "across disks") for way in WAYS if way != "hardlink"] + [("move", "companions")]


@pytest.mark.parametrize(("way", "what"), KILLED)
def test_killed_at_any_moment_it_goes_on_or_back(album: Path, way: Way, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it goes back, and with names of any length and of no text."""
    names = "a" * 251, "é" * 125, os.fsdecode(b'no\xff text, "quoted"'), "new\nline"
    for path, name in zip(sorted(album.glob("*/[!k]*.jpg")), names, strict=True):
        path.rename(path.with_name(f"{name}.jpg"))
    (album / "1" / ".copy.jpg.mine.part").write_bytes(b"known by its ending only")
    rows = with_companions(album, next((album / "1").glob("a*.jpg"))) if what == "companions" else plan_of(album)
    write_plan(album.parent / "plan.csv", rows)
    assert read_plan(album.parent / "plan.csv") == rows
    before, all_contents = read_tree(album), contents(album.parent)
    if what == "across disks":
        monkeypatch.setattr(moving, "_link_or_copy", only_copies(moving._link_or_copy))
    apply(album, rows, way)
    unbroken = read_tree(album.parent).keys()
    undo(album)
    start_again(album)
    at = 0
    while True:
        at += 1
        with monkeypatch.context() as patched:
            calls = kill_at(patched, at)
            with suppress(Killed):
                apply(album, rows, way)
        if calls[0] < at:
            break
        lost = set(all_contents) - set(contents(album.parent))
        assert not lost, f"killed at change {at}: {lost}"
        if at % 3:
            assert not apply(album, rows, way).left
            assert all(not os.path.lexists(row.file) or row.file.samefile(row.kept) for row in rows if row.action == "remove")
            assert read_tree(album.parent).keys() == unbroken, f"killed at change {at}"
        with monkeypatch.context() as patched, suppress(Killed):
            kill_at(patched, at % 12 + 1)
            undo(album)
        undo(album)
        assert read_tree(album) == before and contents(album.parent) == all_contents, f"killed at change {at}"
        assert not list(album.parent.rglob("*.trashinfo")), f"killed at change {at}"
        start_again(album)
    assert at > 10


def start_again(album: Path) -> None:
    for child in (album.parent / "journal.jsonl", album.parent / "data", album.parent / "moved"):
        shutil.rmtree(child) if child.is_dir() else child.unlink(missing_ok=True)


def only_copies(original: Callable[..., None]) -> Callable[..., None]:
    """As if the place were on another disk: the first link fails."""

    def copied(file: Path, place: Path, sha256: str) -> None:
        link = os.link

        def other_disk(source: Any, target: Any, **options: Any) -> None:
            if Path(source) == file:
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            link(source, target, **options)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "link", other_disk)
            original(file, place, sha256)

    return copied


@pytest.mark.parametrize("content", [b"1 copy", b"another file"])
@pytest.mark.parametrize("going_on", [True, False], ids=["goes on", "is undone"])
def test_what_another_put_into_the_trash_after_a_kill_is_left_there(
    album: Path, content: bytes, going_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken from a step that was killed before it wrote its note, by a file with another path."""
    rows, trash = plan_of(album), album.parent / "data" / "Trash"
    with monkeypatch.context() as patched:
        patched.setattr(moving, "write_note", kill)
        with pytest.raises(Killed):
            apply(album, rows, "delete-to-trash")
    others = [trash / "files" / "copy.jpg", trash / "info" / "copy.jpg.trashinfo"]
    for path, holds in zip(
        others, (content, b"[Trash Info]\nPath=/elsewhere/copy.jpg\nDeletionDate=2026-01-02T03:04:05\n"), strict=True
    ):
        path.parent.mkdir(parents=True)
        path.write_bytes(holds)
    for with_file in (True, False):  # at last only the note is there, as before a desktop moves the file
        if not with_file:
            others.pop(0).unlink()
        before = [path.read_bytes() for path in others]
        outcome = apply(album, rows, "delete-to-trash") if going_on else undo(album)
        assert not outcome.left and [path.read_bytes() for path in others] == before
        undo(album)
        assert (album / "1" / "copy.jpg").read_bytes() == b"1 copy" and [path.read_bytes() for path in others] == before


def test_what_changed_since_the_plan_is_left_alone(album: Path) -> None:
    (album / "1" / "linked.jpg").write_bytes(b"1 linked")
    (album / "1" / "link.jpg").write_bytes(b"1 link")
    rows = plan_of(album)
    (album / "1" / "copy.jpg").write_bytes(b"edited meanwhile")
    (album / "1" / "small.jpg").unlink()
    (album / "1" / "linked.jpg").unlink()
    (album / "1" / "linked.jpg").hardlink_to(album / "1" / "keep.jpg")
    (album / "1" / "link.jpg").unlink()
    (album / "1" / "link.jpg").symlink_to("keep.jpg")
    (album / "2" / "keep.jpg").write_bytes(b"another picture")
    expected = {
        "copy": "changed since the plan was made",
        "link": "a link",
        "linked": "the same file on the disk as the kept one",
        "small": "gone since the plan was made",
    }
    for gone in (False, True):
        if gone:
            (album / "2" / "keep.jpg").unlink()
        before = read_tree(album)
        outcome = apply(album, rows, "delete-to-trash")
        assert not outcome.done and read_tree(album) == before
        reasons = {path.parent.name + path.stem: reason for path, reason in outcome.left}
        assert all(reasons[f"1{name}"].startswith(reason) for name, reason in expected.items())
        for name in ("copy", "small"):
            reason = reasons[f"2{name}"]
            assert reason.startswith("the file to keep instead, ") and ("has changed since" in reason) == (not gone)


def test_protected_files_are_never_touched(album: Path) -> None:
    before = read_tree(album)
    outcome = apply(album, plan_of(album), "delete-to-trash", is_protected=lambda path: (album / "1") in path.parents)
    assert len(outcome.done) == 2 and [reason for _, reason in outcome.left] == ["protected"] * 2
    assert {name: value for name, value in before.items() if name.startswith("1/")}.items() <= read_tree(album).items()


@pytest.mark.parametrize("way", ["move", "delete-to-trash"])
def test_a_full_disk_loses_nothing(album: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    before, all_contents, rows = read_tree(album), contents(album.parent), plan_of(album)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(moving, "_link_or_copy", only_copies(moving._link_or_copy))
        patched.setattr(shutil, "copyfileobj", full)
        with pytest.raises(UserError, match="disk is full"):
            apply(album, rows, way)
    assert read_tree(album) == before and contents(album.parent) == all_contents and not list(album.parent.rglob("*.part"))
    assert len(apply(album, rows, way).done) == 4
    undo(album)
    assert read_tree(album) == before


def test_moving_overwrites_nothing(album: Path) -> None:
    there = album.parent / "moved" / (album / "1" / "copy.jpg").relative_to("/")
    there.parent.mkdir(parents=True)
    there.write_bytes(b"mine")
    outcome = apply(album, plan_of(album), "move")
    assert len(outcome.done) == 3 and outcome.left[0][1].endswith("exists") and there.read_bytes() == b"mine"


def test_undo_leaves_alone_what_has_changed_meanwhile(album: Path) -> None:
    rows = plan_of(album)
    apply(album, rows, "symlink")
    (album / "1" / "copy.jpg").unlink()
    (album / "1" / "copy.jpg").write_bytes(b"a new picture")
    moved = album.parent / "data" / "Trash" / "files" / "small.jpg"
    moved.write_bytes(b"edited in the trash")
    outcome = undo(album)
    assert len(outcome.done) == 2 and len(outcome.left) == 2
    assert [file for file in album.rglob("*") if file.is_symlink()] == [
        file for file, reason in outcome.left if reason == f"{moved} has changed since"
    ]
    assert sum(file.is_symlink() for file, _ in outcome.left) == 1
    assert (album / "1" / "copy.jpg").read_bytes() == b"a new picture" and moved.read_bytes() == b"edited in the trash"


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_that_no_lock_reaches_finishes_what_another_one_is_doing(
    album: Path, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It put the file back by removing its new path, just before the first one removed the old path."""
    before, rows, unlink, first = read_tree(album), plan_of(album), Path.unlink, [album / "1" / "copy.jpg"]

    def meanwhile(path: Path, missing_ok: bool = False) -> None:
        if [path] == first:
            first.clear()
            apply(album, rows[:1], way)
        unlink(path, missing_ok)

    monkeypatch.setattr(acting, "fcntl", None)
    monkeypatch.setattr(journal, "hold_lock_file", lambda *_: nullcontext())
    monkeypatch.setattr(Path, "unlink", meanwhile)
    all_contents = contents(album.parent)
    apply(album, rows, way)
    assert not first and contents(album.parent) == all_contents
    undo(album)
    assert read_tree(album) == before


def test_what_another_process_works_with_is_not_put_back(album: Path) -> None:
    """Each could remove the path that the other one leaves."""
    before, file = read_tree(album), album / "1" / "copy.jpg"
    place = album.parent / "moved" / file.relative_to("/")
    apply(album, plan_of(album), "move")
    with acting.hold_files(place, album / "1" / "keep.jpg"):
        assert undo(album).left == [(file, f"another process works with {place}")]
    assert undo(album).done == [file] and read_tree(album) == before


def test_what_was_edited_after_a_kill_is_not_removed(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plan_of(album)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", kill)
        with pytest.raises(Killed):
            apply(album, rows, "move")
    edited = album / "1" / "edited.jpg"
    edited.write_bytes(b"edited meanwhile")
    edited.replace(album / "1" / "copy.jpg")
    outcome = apply(album, rows, "move")
    assert (album / "1" / "copy.jpg", "another file has taken its place") in [
        (path, reason.split(":")[0]) for path, reason in outcome.left
    ]
    assert contents(album.parent).keys() >= {b"edited meanwhile", b"1 copy"}


def test_what_is_gone_from_both_places_is_reported_each_time(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plan_of(album)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "end", kill)
        with pytest.raises(Killed):
            apply(album, rows, "move")
    gone = album.parent / "moved" / (album / "1" / "copy.jpg").relative_to("/")
    gone.unlink()
    assert (album / "1" / "copy.jpg") in [path for path, _ in apply(album, rows, "move").left]
    for _ in range(2):
        assert undo(album).left == [(album / "1" / "copy.jpg", f"{gone} is gone")]


@pytest.mark.parametrize("way", WAYS)
def test_a_second_plan_leaves_no_link_that_leads_nowhere(album: Path, way: Way) -> None:
    first, larger = plan_of(album), album / "1" / "larger.jpg"
    apply(album, first, "symlink")
    larger.write_bytes(b"1 larger")
    before = read_tree(album)
    link, old = album / "1" / "copy.jpg", album / "1" / "keep.jpg"
    (album.parent / "journal.jsonl").rename(album.parent / "first.jsonl")
    rows = [
        PlanRow(1, "keep", larger, larger, "", None, None, False, digest(b"1 larger")),
        PlanRow(1, "remove", old, larger, "", None, None, False, digest(b"1 keep")),
        PlanRow(1, "leave", link, larger, "a link", None, None, False, digest(b"1 keep")),
    ]
    outcome = apply(album, rows, way)
    assert link.read_bytes() == {"hardlink": b"1 larger", "symlink": b"1 larger"}.get(way, b"1 keep")
    assert outcome.left == ([] if "link" in way else [(old, f"{link} is a link to it, which would lead nowhere")])
    undo(album)
    assert read_tree(album) == before


@pytest.mark.parametrize("way", ["move", "delete-to-trash"])
def test_a_film_that_came_or_went_since_the_plan_keeps_the_picture(album: Path, way: Way) -> None:
    """The film of the copy may be the last one, or be left beside nothing."""
    for name in ("keep", "copy"):
        (album / "1" / f"{name}.mov").write_text("film")
    rows = [replace(row, facts=facts_of(row.file, *find_companions(row.file))) for row in plan_of(album)]
    (album / "1" / "keep.mov").unlink()
    (album / "2" / "copy.mov").write_text("another")
    outcome = apply(album, rows, way)
    lost, come = album / "1", album / "2" / "copy.jpg"
    assert [file for file, _ in outcome.left] == [lost / "copy.jpg", lost / "small.jpg", come]
    assert "keep.mov, which belonged to" in outcome.left[0][1] and "copy.mov has come to belong" in outcome.left[2][1]
    assert outcome.done == [album / "2" / "small.jpg"] and (lost / "copy.mov").exists()


@pytest.mark.parametrize("way", WAYS)
def test_what_was_removed_is_not_found_again(album: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could be kept the next time, and the last one elsewhere be removed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(album / ".local"))
    with closing(Journal(album.parent / "journal.jsonl")) as journal:
        acting.apply_plan(plan_of(album), way, journal, album / "1" / "twice")
    gone, found = {album / "1" / "copy.jpg", album / "1" / "small.jpg"}, discover([album]).paths
    assert all(path.parent in (album / "1", album / "2") for path in found)
    assert ("link" in way) == gone.issubset(found) and len(discover([album]).skipped[SET_ASIDE]) == 1
    set_aside = album / "1" / "twice" if way == "move" else album / ".local" / "Trash"
    assert len(discover([set_aside]).paths) == 4  # where it is named


@pytest.mark.parametrize("way", ["move", "delete-to-trash"])
def test_what_belongs_together_stays_together(album: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, film, unlink = with_companions(album, album / "1" / "copy.jpg"), album / "1" / "copy.mov", Path.unlink
    before = read_tree(album)
    assert apply(album, rows, way, is_protected=lambda path: path == film).left == [
        (album / "1" / "copy.jpg", f"{film}, which belongs to it, is protected or kept")
    ]

    def denied(path: Path, missing_ok: bool = False) -> None:
        if path == film:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", denied)
        (left,) = apply(album, rows, way).left
    assert left[0] == album / "1" / "copy.jpg" and "cannot be removed from its folder" in left[1]
    assert {path.name for path in (album / "1").iterdir()} == {"keep.jpg", "copy.jpg", "copy.mov", "copy.xmp"}
    undo(album)
    assert read_tree(album) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_back_is_dealt_with_again_or_reported(album: Path, way: Way) -> None:
    rows, file = plan_of(album), album / "1" / "copy.jpg"
    apply(album, rows, way)
    if os.path.lexists(file):
        file.unlink()
    file.write_bytes(b"1 copy")
    outcome = apply(album, rows, way)
    if way == "move":
        assert not outcome.done and [(path, reason.split()[-1]) for path, reason in outcome.left] == [(file, "exists")]
    else:
        assert outcome.done == [file] and not outcome.left
    assert not undo(album).left and file.read_bytes() == b"1 copy" and not file.is_symlink()


def test_across_disks_owner_and_mode_are_kept_and_no_folder_is_opened_to_others(
    album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_link_or_copy", only_copies(moving._link_or_copy))
    file, owner = album / "1" / "copy.jpg", (1234, 2345) if os.getuid() == 0 else (os.getuid(), os.getgid())
    for path, mode in ((file, 0o640), (album / "1", 0o700), (album / "2", 0o555)):
        os.chown(path, *owner)
        path.chmod(mode)
    rows = plan_of(album)
    assert len(apply(album, rows, "move").done) == (4 if os.getuid() == 0 else 2)
    moved = album.parent / "moved" / album.relative_to("/")
    states = [
        (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777) for path in (moved / "1", moved / "1/copy.jpg")
    ]
    assert states == [(*owner, 0o700), (*owner, 0o640)] and (moved / "2").stat().st_mode & 0o777 == 0o755
    undo(album)
    assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (*owner, 0o640)


def test_facts_survive_the_plan_and_one_without_them_is_read(album: Path) -> None:
    rows, path = [replace(row, facts=facts_of(row.file)) for row in plan_of(album)], album.parent / "plan.csv"
    write_plan(path, rows)
    assert read_plan(path) == rows
    lines = [line.split(",") for line in path.read_text().splitlines()]
    place = lines[0].index("frames")
    path.write_text("\n".join(",".join(cells[:place] + cells[place + 1 :]) for cells in lines))
    assert [row.facts for row in read_plan(path)] == [None] * len(rows)


def test_a_journal_cut_short_by_a_kill_is_gone_on_with(album: Path) -> None:
    rows, path = plan_of(album), album.parent / "journal.jsonl"
    apply(album, rows, "move")
    with path.open("ab") as file:
        file.write(b'{"state": "begin", "number"')
    assert len(undo(album).done) == 4
    path.write_bytes(b"what is this\n" + path.read_bytes())
    with pytest.raises(UserError, match="is not a line of a journal"):
        Journal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.replace("remove", "burn", 1), "one of keep, remove, review, leave"),
        (lambda line: line.replace("keep,", "remove,", 1), "has no line with the action keep"),
        (lambda line: line.replace("sha256", "sum"), "no column 'sha256'"),
        (lambda line: line.replace(",class,", ",kind,"), "no column 'class'"),
        (lambda line: line.replace(",certainty,", ",sure,"), "class, certainty and sha256 as a search writes them"),
        (lambda line: line.replace("/1/copy.jpg", "/1/small.jpg", 1), "twice"),
        (lambda line: line.replace(",/", ",", 1), "absolute"),
        (lambda line: line.replace("/album/", "/album/../album/", 1), r"absolute paths without '\.\.'"),
        (lambda line: "\n".join(row[:-3] for row in line.splitlines()), "no column"),
    ],
)
def test_a_plan_that_was_spoilt_is_refused(album: Path, change: Callable[[str], str], message: str) -> None:
    path = album.parent / "plan.csv"
    write_plan(path, [replace(row, judgement=Judgement("certain", "", 99)) for row in plan_of(album)])
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message):
        read_plan(path)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_without_which_the_kept_one_is_gone_comes_back(album: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a disk is mounted twice and does not tell that two paths lead to one file."""
    moved = relocate

    def relocate_both(file: Path, place: Path, sha256: str, resumed: bool = False) -> None:
        kept = album / "1" / "keep.jpg"
        aliased = album / "1" / "copy.jpg" in (file, place)
        if aliased and place.parent == kept.parent:
            shutil.copy(place if place.exists() else file, kept)
        moved(file, place, sha256, resumed)
        if aliased and file.parent == kept.parent:
            kept.unlink()

    for name in ("copy", "keep"):
        (album / "1" / f"{name}.jpg").write_bytes(b"one file")
    before = read_tree(album)
    monkeypatch.setattr(moving, "relocate", relocate_both)
    outcome = apply(album, plan_of(album), way)
    assert [file for file, _ in outcome.left] == [
        album / "1" / "copy.jpg"
    ] and "the file to keep instead is gone" in outcome.left[0][1]
    assert len(outcome.done) == 3 and all((album / "1" / f"{name}.jpg").read_bytes() == b"one file" for name in ("copy", "keep"))
    assert not undo(album).left and read_tree(album) == before
