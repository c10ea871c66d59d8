"""match.py --apply and --undo: carry out a plan, or undo it."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there
from image_copies.data.locks import hold_lock_file
from image_copies.matching.commands.deciding import read_rejected_pairs
from image_copies.matching.commands.sources import make_protection_check, refuse_within
from image_copies.matching.files.acting import LINKS, Outcome, apply_plan, undo
from image_copies.matching.files.journal import MERGE, Journal, Way
from image_copies.matching.files.moving import find_home_trash, find_trash
from image_copies.matching.files.plan import PlanRow, list_companions, read_plan, remove_merged
from image_copies.matching.output import Output, count
from image_copies.matching.results.folder import JOURNAL, MOVED, PLAN, SEARCH, SearchNotes, read_notes


@dataclass
class Room:
    """Room on a disk that files go to.

    Attributes:
        folder: An existing folder there.
        needed: Bytes of the files that come from other disks.
        free: Bytes that are free.
    """

    folder: Path
    needed: int
    free: int


SILENT = Output(quiet=True)
MAX_PRINTED_FILES = 20  # files left alone that are listed one by one
BUSY_MESSAGE = "another process is carrying out or undoing a plan. Wait for it: two could each remove what the other keeps."


def carry_out(
    folder: Path,
    index: Path | None,
    way: Way,
    moved_to: Path | None,
    protected: Sequence[Path],
    output: Output,
    merging: bool = False,
) -> int:
    """Carry out a plan.

    Args:
        folder: Folder of the results, which holds the plan and gets the journal.
        index: The index that keeps the decisions; None for the one that the search used.
        way: What to do with the files.
        moved_to: Destination of "move"; None for `folder`/moved.
        protected: Files and folders that must not be touched.
        output: Where messages go.
        merging: Whether what a file notes and the kept one lacks is written into a sidecar of the kept one, and files go that
            nothing else keeps.

    Returns:
        The exit code: 0, or 1 if files were left alone.

    Raises:
        UserError: when there is no plan, it is invalid, its index or what is to be protected does not exist, the disk is full, or
            another process is carrying out a plan.
    """
    outcome = carry_out_plan(folder, way, index, moved_to, protected, output, merging)
    _report(outcome, way, output)
    command = f"{name_command('match')} --undo --output {shlex.quote(text_of(folder))}"
    output.say(f"journal: {folder / JOURNAL}; take everything back with: {command}")
    return 1 if outcome.left else 0


def carry_out_plan(
    folder: Path,
    way: Way,
    index: Path | None = None,
    moved_to: Path | None = None,
    protected: Sequence[Path] = (),
    output: Output = SILENT,
    merging: bool = False,
) -> Outcome:
    """Carry out a plan as `carry_out` does, and return what became of the files.

    Raises:
        UserError: as there.
    """
    rows, rejected = read_plan(folder / PLAN), read_rejected_pairs(folder, index)
    notes = read_notes(folder) if (folder / SEARCH).exists() else SearchNotes()
    guarded = [*protected, *_list_known(notes.read_only)]
    is_protected = make_protection_check(guarded)
    refuse_within(moved_to or folder / MOVED, guarded, "--to")
    if moved_to is not None:
        refuse_within(moved_to, _list_known(notes.sources), "--to", "was searched")
    place = (moved_to or folder / MOVED).resolve()
    if held := next((row.file for row in rows if row.file.is_relative_to(place)), None):
        raise UserError(
            f"{place} holds {held}, which the plan names, and what is moved is not searched again. Name another --to."
        )
    with hold_lock_file(_lock(), BUSY_MESSAGE):
        _check_room(measure_room(remove_merged(rows) if merging else rows, way, place), output)
        journal = Journal(folder / JOURNAL)
        try:
            return apply_plan(
                rows=rows,
                way=way,
                journal=journal,
                moved_to=place,
                is_protected=is_protected,
                rejected=rejected,
                merging=merging,
            )
        finally:
            journal.close()


def take_back(folder: Path, output: Output) -> int:
    """Undo what the journal in a folder of results records; return the exit code: 0, or 1 if files were left alone.

    Raises:
        UserError: when there is no such folder, the journal is damaged, the disk is full, or another process is carrying out a
            plan.
    """
    if not is_there(folder):
        raise UserError(
            f"nothing to undo: {folder} does not exist. Name the folder of the results with --output."
        )
    if not (folder / JOURNAL).exists():
        output.say(
            f"nothing to undo: {folder / JOURNAL} does not exist; another folder of results is named with --output"
        )
        return 0
    outcome = undo_plan(folder)
    if outcome.done or outcome.left:
        _report(outcome, "undo", output)
    else:
        output.say(
            f"nothing to undo: all that {folder / JOURNAL} records has been taken back, or was never done"
        )
    return 1 if outcome.left else 0


def undo_plan(folder: Path) -> Outcome:
    """Undo what the journal in a folder of results records, as `take_back` does, and return what became of the files.

    Raises:
        UserError: as there.
    """
    with hold_lock_file(_lock(), BUSY_MESSAGE):
        journal = Journal(folder / JOURNAL)
        try:
            return undo(journal)
        finally:
            journal.close()


def list_removed(folder: Path) -> list[Path]:
    """Return the files that a plan of a folder of results removed, and that were not put back since.

    Raises:
        UserError: when the journal is damaged, or another process is writing it.
    """
    if not (folder / JOURNAL).exists():
        return []
    journal = Journal(folder / JOURNAL)
    try:
        return [step.file for step in journal.in_state("done") if step.way != MERGE]
    finally:
        journal.close()


def _list_known(names: Sequence[str]) -> list[Path]:
    """Return the folders and files that a search noted, but for those that are gone."""
    return [path for path in map(Path, names) if is_there(path)]


def _check_room(rooms: Iterable[Room], output: Output) -> None:
    """Say how much room is needed and free.

    Raises:
        UserError: there is too little.
    """
    for room in rooms:
        figures = f"{room.needed / 1e6:.1f} MB needed, {room.free / 1e6:.1f} MB free"
        output.say(f"room on the disk of {room.folder}: {figures}")
        if room.needed > room.free:
            raise UserError(
                f"there is too little room on the disk of {room.folder}: {figures}. Nothing has been touched: make room, or move "
                "the files to another disk with --apply move --to DIR."
            )


def _lock() -> Path:
    """Return the path of the lock that all plans of a user share, whatever folder for temporary files a process was given."""
    own = find_home_trash().parent
    there = next(folder for folder in (own, *own.parents) if is_there(folder))
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return (
        own if os.access(there, os.W_OK) else Path(tempfile.gettempdir())
    ) / f"image-copy-detection-{user}.lock"


def _report(outcome: Outcome, what: str, output: Output) -> None:
    for path in outcome.done:
        output.record("done", {"action": what, "file": path})
    for path, reason in outcome.left:
        output.record("left", {"action": what, "file": path, "reason": reason})
    for path, reason in outcome.left[:MAX_PRINTED_FILES]:
        output.say(f"left alone: {path}: {reason}")
    if len(outcome.left) > MAX_PRINTED_FILES:
        output.say(f"… and {len(outcome.left) - MAX_PRINTED_FILES} more")
    output.say(f"{what}: {count(len(outcome.done), 'file')} done, {len(outcome.left)} left alone")


def measure_room(rows: Iterable[PlanRow], way: Way, moved_to: Path) -> list[Room]:
    """Return the room on every disk that files go to; arguments as for `apply_plan`."""
    rooms: dict[int, Room] = {}
    for row in rows:
        for file in [row.file] * (row.action == "remove") + ([] if way in LINKS else list_companions(row)):
            try:
                state = file.lstat()
                place = moved_to if way == "move" else find_trash(file, moved_to / "trash")
            except OSError:
                continue  # gone, which is reported when its turn comes
            folder = next(folder for folder in (place, *place.parents) if is_there(folder))
            disk = folder.stat().st_dev
            room = rooms.setdefault(disk, Room(folder, 0, shutil.disk_usage(folder).free))
            room.needed += state.st_size if disk != state.st_dev else 0
    return list(rooms.values())
