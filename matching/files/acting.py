"""Carrying out a plan, and undoing it.

Before a file is touched, everything that the plan took for granted is looked at again: the file and the one that is kept instead
of it are there, are two files, and hold the bytes that were searched. What is not so is left alone and reported.
"""

import errno
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath

from image_copies.data.errors import UserError, text_of
from image_copies.data.files import disk_full, is_file, is_link, remove_leftovers, write_text
from image_copies.data.sources.walking import set_aside

from . import moving
from .companions import find_companions
from .journal import MERGE, FileStep, Journal, LeftAloneError, Way
from .plan import PlanRow, list_companions, remove_merged
from .surplus import plan_merge

try:
    import fcntl
except ImportError:  # Windows, where the lock of all plans of a user has to do
    fcntl = None  # type: ignore[assignment]
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe of that name is not waited for

# a link takes the place of the file, and what belongs to it stays
LINKS: tuple[Way, ...] = ("hardlink", "symlink")


@dataclass
class Outcome:
    """The files that a plan or its undoing was carried out on, and those that were left alone, each with the reason."""

    done: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)


def apply_plan(
    rows: Iterable[PlanRow],
    way: Way,
    journal: Journal,
    moved_to: Path,
    is_protected: Callable[[Path], bool] = lambda path: False,
    rejected: Collection[frozenset[bytes]] = (),
    merging: bool = False,
) -> Outcome:
    """Do to every file that the plan removes what `way` says; first finish what a kill left half done.

    Args:
        rows: The rows of the plan.
        way: "move": into `moved_to`, under its path; "hardlink", "symlink": the file goes to the trash and a link to the kept
            file takes its place; "delete-to-trash".
        journal: The open journal.
        moved_to: Folder for moved files; its subfolder `trash` is used on systems without a trash.
        is_protected: Tells whether a file must never be touched, whatever the plan says.
        rejected: Pairs of SHA-256 that a person decided are not copies, perhaps after the plan was made.
        merging: Whether what a file notes and the kept one lacks is written next to that before the file goes.

    Returns:
        The files that were dealt with and those left alone, of this call only.

    Raises:
        UserError: The disk is full. Everything done before is in the journal.
    """
    outcome = _settle(journal, journal.in_state("begin"), forward=True)
    rows = remove_merged(list(rows)) if merging else list(rows)
    staying = {row.file: row for row in rows if row.action == "keep"}
    finished = {step.file: step for step in journal.in_state("done") if step.way != MERGE}
    links = {} if way in LINKS else _find_links([*(row.file for row in rows), *finished])

    def find_obstacle(row: PlanRow, pending: Sequence[Path]) -> str:
        """Return why the files of a row must stay; empty for no reason."""
        if row.protected or is_protected(row.file):
            return "protected"
        if way == "hardlink" and is_protected(row.kept):
            return f"a hard link to {row.kept}, which is protected, would let changes reach it"
        for file in pending:
            if file != row.file and (is_protected(file) or file in staying):
                return f"{file}, which belongs to it, is protected or kept"
            if file in links:
                return f"{links[file]} is a link to it, which would lead nowhere"
        # where the picture has gone already, what belongs to it follows
        if (
            row.file in pending
            and frozenset(map(bytes.fromhex, (row.sha256, staying[row.kept].sha256))) in rejected
        ):
            return "called no copy of the file to keep; `match decide` with undecided takes that back"
        return ""

    for row in rows:
        pending = _list_pending(row, way, finished)
        if not pending:
            continue
        try:
            if obstacle := find_obstacle(row, pending):
                raise LeftAloneError(obstacle)
            with hold_files(row.file, row.kept):
                merge = None
                if row.file in pending:
                    if change := _find_change(row, staying[row.kept], way):
                        raise LeftAloneError(change)
                    if merging:
                        merge = plan_merge(row.file, row.kept, bool(row.merged), is_protected)
                finished |= _remove_together(journal, row, pending, way, moved_to, merge)
            outcome.done += pending
        except LeftAloneError as reason:
            outcome.left.append((row.file, str(reason)))
    return outcome


def _list_pending(row: PlanRow, way: Way, finished: Mapping[Path, FileStep]) -> list[Path]:
    """Return what is still to be removed: the row's file and, where its path becomes free, what belongs to it."""
    if row.action != "remove":
        return []
    step = finished.get(row.file)
    # the file may have come to its old path again
    pending = [row.file] if step is None or (os.path.lexists(step.file) and not _is_link(step)) else []
    if way in LINKS or (step is not None and not pending and step.way in LINKS):
        return pending
    companions = [file for file in list_companions(row) if is_file(file) and not is_link(file)]
    return pending + [file for file in companions if pending or file not in finished]


def _remove_together(
    journal: Journal,
    row: PlanRow,
    files: Sequence[Path],
    way: Way,
    moved_to: Path,
    merge: tuple[FileStep, str] | None,
) -> dict[Path, FileStep]:
    """Write notes, then remove files that belong together: all, or none where one is left alone; return the step of each file."""
    steps = list[FileStep]()
    try:
        if merge is not None:
            step, content = merge
            _carry_out(journal, step, partial(write_text, step.file, content))
            steps.append(step)
        for file in files:
            with _leave_on_error(file):
                place, note = _choose_place(file, way, moved_to)
                sha256 = row.sha256 if file == row.file else moving.digest_if_regular(file)
            step = FileStep(way, file, place, row.kept, sha256, note)
            _carry_out(journal, step, partial(_remove, step))
            steps.append(step)
    except LeftAloneError:
        for step in reversed(steps):
            _put_back(step)
            journal.end(step, "undone")
        raise
    return {step.file: step for step in steps if step.way != MERGE}


def _carry_out(journal: Journal, step: FileStep, work: Callable[[], None]) -> None:
    """Do a step, or nothing of it; of a file that is not back then it stays begun, and the next call or an undo tries again.

    Raises:
        LeftAloneError: It cannot be done.
        UserError: The disk is full.
    """
    journal.begin(step)
    try:
        with _leave_on_error(step.place):
            work()
    except (LeftAloneError, UserError) as reason:
        if step.note:
            moving.remove_orphaned_note(step.note, step.file, step.place)
        if step.way == MERGE or os.path.lexists(step.file):
            journal.end(step, "left", str(reason))
        raise
    journal.end(step, "done")


def _remove(step: FileStep, resumed: bool = False) -> None:
    """Move a file to its place, if it is not there yet, and make the link that takes its own; raises OSError."""
    file, kept = step.file, step.kept
    if step.note:
        moving.write_note(step.note, file)
    moving.relocate(file, step.place, step.sha256, resumed)
    try:
        if not kept.is_file():  # it was the same file by another path, or has gone in the meantime
            raise FileNotFoundError(errno.ENOENT, "the file to keep instead is gone", os.fspath(kept))
        if step.way == "hardlink":
            os.link(kept, file)
        elif step.way == "symlink":
            file.symlink_to(kept)
    except OSError:
        moving.relocate(step.place, file, step.sha256)
        raise


def _restore_sidecar(step: FileStep) -> None:
    """Restore the text that a sidecar had; remove a sidecar that did not exist before.

    Raises:
        LeftAloneError: It has changed since.
        OSError: It cannot be written.
    """
    remove_leftovers(step.file.parent)  # also of an undo that was killed
    before = step.before
    now = moving.digest_if_regular(step.file)
    if now != step.sha256:
        if now != hashlib.sha256(before.encode()).hexdigest() if before else os.path.lexists(step.file):
            raise LeftAloneError("it has changed since notes were added to it")
    elif before:
        write_text(step.file, before)
    else:
        step.file.unlink()


def undo(journal: Journal) -> Outcome:
    """Put everything back that the journal says was done, the last first.

    A file is put back only if it holds the bytes that were taken away and nothing else has taken its place since.
    """
    return _settle(journal, [*journal.in_state("done"), *journal.in_state("begin")], forward=False)


def _settle(journal: Journal, steps: Sequence[FileStep], forward: bool) -> Outcome:
    """Put the files of steps back, the last first; those of state "begin" a kill left half done.

    `forward`: a file that has reached its place stays there, and the step is finished. Another machine, which no lock reaches,
    may be about to remove the old path.
    """
    outcome = Outcome()
    noted_by = set[Path]()  # the kept files of what is left alone
    for step in reversed(steps):
        try:
            with hold_files(step.place, step.file), _leave_on_error(step.file):
                if journal.states[step.number] == "begin":
                    remove_leftovers(step.place.parent)
                    if step.note:
                        remove_leftovers(step.note.parent)
                if step.way == MERGE and step.kept in noted_by:
                    raise LeftAloneError("it notes what a file that is not put back does")
                finished = forward and _is_moved(step)
                if not finished:
                    _put_back(step)
                elif step.way != MERGE and not _is_link(step):
                    _remove(step, resumed=True)
            journal.end(step, "done" if finished else "undone")
            if finished == forward:
                outcome.done.append(step.file)
        except LeftAloneError as reason:
            outcome.left.append((step.file, str(reason)))
            noted_by.add(step.kept)
    return outcome


def _find_links(files: Iterable[Path]) -> dict[Path, Path]:
    """Return the symbolic links among files, by the file that each leads to."""
    return {Path(os.path.realpath(file)): file for file in files if is_link(file)}


def _find_change(row: PlanRow, kept_row: PlanRow, way: Way) -> str:
    """Return what is not as the plan took it for granted; empty for nothing.

    What belongs to a file goes with it: a film next to the kept one may have been the other.
    """
    file, kept = row.file, kept_row.file
    try:
        if file.is_symlink() or kept.is_symlink():
            return "a link"
        if not file.is_file():
            return "gone since the plan was made"
        if not kept.is_file():
            return f"the file to keep instead, {kept}, is gone"
        if file.samefile(kept):
            return "the same file on the disk as the kept one"
        if moving.digest_if_regular(file) != row.sha256:
            return "changed since the plan was made"
        if moving.digest_if_regular(kept) != kept_row.sha256:
            return f"the file to keep instead, {kept}, has changed since the plan was made"
        if way == "hardlink" and file.stat().st_dev != kept.stat().st_dev:
            return "on another disk than the kept file, which a hard link cannot reach"
    except OSError as error:
        return f"cannot be looked at ({_describe(error)})"
    if way in LINKS or row.facts is None or kept_row.facts is None:
        return ""
    if come := set(find_companions(file)).difference(row.facts.companions):
        return f"{min(come)} has come to belong to it since the plan was made: search again"
    if gone := set(kept_row.facts.companions).difference(find_companions(kept)):
        return f"{min(gone)}, which belonged to {kept}, is gone since the plan was made: search again"
    return ""


def _choose_place(file: Path, way: Way, moved_to: Path) -> tuple[Path, Path | None]:
    """Return where a file goes, and the note of the trash.

    Raises:
        LeftAloneError: Something lies there.
        OSError: That cannot be seen.
    """
    if way == "move":
        place, note = moved_to / whole_path(file), None
    else:
        place, note = moving.find_trash_place(file, moving.find_trash(file, moved_to / "trash"))
    if place.is_relative_to(moved_to):
        # before anything is there: a search that found it could keep it, and remove the last one elsewhere
        set_aside(moved_to)
    if way == "move" and os.path.lexists(place):
        raise LeftAloneError(f"{place} exists")
    return place, note


def whole_path(file: PurePath) -> PurePath:
    """Return an absolute path as a relative one that no other file's becomes, drive letter or server included."""
    drive = "-".join(part for part in re.split(r"[\\/:?.]+", file.drive) if part)
    return PurePath(drive, *file.parts[1:])


def _is_moved(step: FileStep) -> bool:
    """Whether the file of a step is at its place; in the trash, another one may have got the name before the step began."""
    if step.note and os.path.lexists(step.note) and not moving.is_note_of(step.note, step.file):
        return False
    return moving.digest_if_regular(step.place) == step.sha256


def _describe(error: OSError) -> str:
    """Return what went wrong, and with which path: it may be the file's, the kept one's or the new one's."""
    where = error.filename2 or error.filename
    return f"{error.strerror or error}" + (f": {text_of(Path(where))}" if isinstance(where, str) else "")


@contextmanager
def _leave_on_error(written: Path) -> Iterator[None]:
    """Leave a file alone where the system raises an error; stop where the disk of what is written is full."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(written) from error
        raise LeftAloneError(_describe(error)) from error


def _is_link(step: FileStep) -> bool:
    """Whether the link that a step makes is at the old path of its file."""
    file, kept = step.file, step.kept
    if step.way == "symlink":
        return file.is_symlink() and file.readlink() == kept
    return step.way == "hardlink" and file.is_file() and kept.is_file() and file.samefile(kept)


def _put_back(step: FileStep) -> None:
    """Put a file back to its old path, from wherever a step, done or half done, has brought it.

    Raises:
        LeftAloneError: It cannot be put back.
        UserError: The disk is full.
    """
    file, place = step.file, step.place
    with _leave_on_error(file):
        if step.way == MERGE:
            return _restore_sidecar(step)
        linked = _is_link(step)
        if _is_moved(step):
            if linked:
                file.unlink()
            moving.relocate(place, file, step.sha256, resumed=True)
        elif linked or moving.digest_if_regular(file) != step.sha256:
            raise LeftAloneError(f"{place} {'has changed since' if os.path.lexists(place) else 'is gone'}")
        if step.note:  # or the next file of its name would get another one in the trash
            moving.remove_orphaned_note(step.note, file, place)


@contextmanager
def hold_files(file: Path, kept: Path) -> Iterator[None]:
    """Let no other process that holds files remove `kept`, or do anything with `file`, while the block runs.

    A lock belongs to the file on the disk, whatever path leads there. What is missing, or lies where nothing can be locked, is
    not held; nor is one that both paths lead to held twice.

    Raises:
        LeftAloneError: another process holds one of them.
    """
    with ExitStack() as held:
        handles: list[int] = []
        for path, exclusive in ((file, True), (kept, False)):
            try:
                handles.append(os.open(path, FLAGS))
            except OSError:
                continue
            held.callback(os.close, handles[-1])
            if fcntl is None or (len(handles) == 2 and os.path.sameopenfile(*handles)):
                continue
            try:
                fcntl.flock(handles[-1], (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LeftAloneError(f"another process works with {path}") from error
            except OSError:  # a file system without such locks
                continue
        yield
