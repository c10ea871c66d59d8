"""match.py --apply and --undo: carry out a plan, or undo it."""

import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there
from image_copies.data.locks import hold_lock_file

from ..files.acting import Outcome, apply_plan, undo
from ..files.journal import MERGE, Journal, Way
from ..files.moving import find_home_trash
from ..files.plan import read_plan
from ..output import Output, count
from ..results.folder import JOURNAL, MOVED, PLAN, SEARCH, SearchNotes, read_notes
from .indexing import read_rejected_pairs
from .sources import indexed_sources, make_protection_check, refuse_within

MAX_PRINTED_FILES = 20  # files left alone that are listed one by one
BUSY_MESSAGE = "another process is carrying out or undoing a plan. Wait for it: two could each remove what the other keeps."


def carry_out(
    folder: Path,
    way: Way,
    index: Path | None = None,
    moved_to: Path | None = None,
    protected: Sequence[Path] = (),
    merging: bool = False,
) -> Outcome:
    """Carry out a plan, and return what became of the files.

    Args:
        folder: Folder of the results, which holds the plan and gets the journal.
        way: What to do with the files.
        index: The index that keeps the decisions; None for the one that the search used.
        moved_to: Destination of "move"; None for `folder`/moved.
        protected: Files and folders that must not be touched.
        merging: Whether what a file notes and the kept one lacks is written into a sidecar of the kept one, and files go that
            nothing else keeps.

    Raises:
        UserError: when there is no plan, it is invalid, its index or what is to be protected does not exist, the disk is full, or
            another process is carrying out a plan.
    """
    rows = read_plan(folder / PLAN)
    rejected = read_rejected_pairs(folder, index)
    notes = read_notes(folder) if (folder / SEARCH).exists() else SearchNotes()
    guarded = [*indexed_sources(protected), *_list_known(notes.read_only)]
    is_protected = make_protection_check(guarded)
    refuse_within(moved_to or folder / MOVED, guarded, "--to")
    if moved_to is not None:
        refuse_within(moved_to, _list_known(notes.sources), "--to", "was searched")
    place = (moved_to or folder / MOVED).resolve()
    if held := next((row.file for row in rows if row.file.is_relative_to(place)), None):
        raise UserError(
            f"{place} holds {held}, which the plan names, and what is moved is not searched again. Name another --to."
        )
    with hold_lock_file(_lock(), BUSY_MESSAGE), closing(Journal(folder / JOURNAL)) as journal:
        return apply_plan(rows, way, journal, place, is_protected, rejected, merging)


def take_back(folder: Path) -> Outcome:
    """Undo what the journal in a folder of results records, and return what became of the files.

    Raises:
        UserError: when there is no such journal, it is damaged, the disk is full, or another process is carrying out a plan.
    """
    if not is_there(folder / JOURNAL):
        raise UserError(
            f"nothing to undo: {folder / JOURNAL} does not exist. Name the folder of the results with --output."
        )
    with hold_lock_file(_lock(), BUSY_MESSAGE), closing(Journal(folder / JOURNAL)) as journal:
        return undo(journal)


def list_removed(folder: Path) -> list[Path]:
    """Return the files that a plan of a folder of results removed, and that were not put back since.

    Raises:
        UserError: when the journal is damaged, or another process is writing it.
    """
    if not (folder / JOURNAL).exists():
        return []
    with closing(Journal(folder / JOURNAL)) as journal:
        return [step.file for step in journal.in_state("done") if step.way != MERGE]


def report(folder: Path, outcome: Outcome, what: Way | Literal["undo"], output: Output) -> int:
    """Say what became of the files of a plan; return the exit code: 0, or 1 if files were left alone."""
    for path in outcome.done:
        output.record("done", {"action": what, "file": path})
    for path, reason in outcome.left:
        output.record("left", {"action": what, "file": path, "reason": reason})
    for path, reason in outcome.left[:MAX_PRINTED_FILES]:
        output.say(f"left alone: {path}: {reason}")
    if len(outcome.left) > MAX_PRINTED_FILES:
        output.say(f"… and {len(outcome.left) - MAX_PRINTED_FILES} more")
    output.say(f"{what}: {count(len(outcome.done), 'file')} done, {len(outcome.left)} left alone")
    if what != "undo":
        command = f"{name_command('match')} --undo --output {shlex.quote(text_of(folder))}"
        output.say(f"journal: {folder / JOURNAL}; take everything back with: {command}")
    return 1 if outcome.left else 0


def _list_known(paths: Sequence[Path]) -> list[Path]:
    """Return the folders and files that a search noted, but for those that are gone."""
    return list(filter(is_there, paths))


def _lock() -> Path:
    """Return the path of the lock that all plans of a user share, whatever folder for temporary files a process was given."""
    own = find_home_trash().parent
    there = next(folder for folder in (own, *own.parents) if is_there(folder))
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return (
        own if os.access(there, os.W_OK) else Path(tempfile.gettempdir())
    ) / f"image-copy-detection-{user}.lock"
