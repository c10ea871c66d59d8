"""The folder of results: who may write there, what the search was, where decisions are kept, and how its plan is carried out."""

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there, write_text
from image_copies.data.locks import hold_lock_file
from image_copies.data.sources.walking import expand_sources, known_path

from .files.acting import Outcome, apply_plan, undo
from .files.journal import MERGE, Journal, Way
from .files.moving import find_home_trash
from .files.plan import read_plan
from .index.decisions import Decisions, Pair
from .index.store import DATABASE
from .output import Output, count

MATCHES = "matches.csv"
GROUPS = "groups.csv"
HUBS = "hubs.csv"
PLAN = "plan.csv"
SEARCH = "search.json"
OWN_INDEX = "index"
MOVED, JOURNAL = "moved", "journal.jsonl"  # of plans that were carried out
GALLERY, LEAKAGE_GALLERY = "gallery", "leakage"
UNREADABLE = "unreadable.txt"  # in the folder of the results, or of the index
LEAKAGE, FOLDERS = "leakage.csv", "folders.csv"
LOCK = ".lock"
MAX_PRINTED_FILES = 20  # files left alone that are listed one by one
BUSY_MESSAGE = "another process is carrying out or undoing a plan. Wait for it: two could each remove what the other keeps."
# by a search
WRITTEN = (MATCHES, GROUPS, HUBS, PLAN, OWN_INDEX, UNREADABLE, LEAKAGE, FOLDERS)
PAGES = (GALLERY, LEAKAGE_GALLERY)
PASSED_OVER = (*PAGES, OWN_INDEX, MOVED)  # where no pictures are looked for


@dataclass(frozen=True)
class SearchNotes:
    """What later commands need to know of a search; paths are absolute.

    Attributes:
        read_only: Folders in which nothing is to be changed.
        sources: The folders and files that were searched.
        index: The index that was searched, where decisions are kept; None for the one in the results' folder.
        threshold: The lowest score of a copy; None where nothing decided it.
        references: Whether queries were searched among references, not among themselves.
    """

    read_only: Sequence[Path]
    sources: Sequence[Path]
    index: Path | None = None
    threshold: float | None = None
    references: bool = False


NOTES: TypeAdapter[SearchNotes] = TypeAdapter(SearchNotes)


def hold_results_folder(folder: Path) -> AbstractContextManager[None]:
    """Lock the folder of the results against other processes.

    Raises:
        UserError: another search is writing into it, it is a file, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--output {folder} cannot be made ({error.strerror}). Name a folder that you may write to."
        ) from error
    return hold_lock_file(
        folder / LOCK, f"another search is writing into {folder}. Wait for it, or name another --output."
    )


def write_notes(folder: Path, notes: SearchNotes) -> None:
    """Write what later commands need to know of a search."""
    write_text(folder / SEARCH, json.dumps(asdict(notes), default=os.fspath) + "\n")


def read_notes(folder: Path) -> SearchNotes:
    """Read the notes on a search.

    Raises:
        UserError: there are none, or the file is damaged.
    """
    path = folder / SEARCH
    try:
        return NOTES.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there are no results of a search. Search first: {name_command('match')} DIR writes them."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read, or does not hold the values that a search writes. Search again."
        ) from error


def find_index(index: Path | None, folder: Path) -> Path:
    """Return the index that decisions are kept in: the named one, or the one that a folder of results was searched in.

    Raises:
        UserError: There is none, or none any more.
    """
    place = index or read_notes(folder).index or folder / OWN_INDEX
    if not (place / DATABASE).is_file():
        raise UserError(
            f"{place} holds no index, which keeps your decisions. Search first, or name its place with --index DIR."
        )
    return place


def carry_out(
    folder: Path,
    way: Way,
    index: Path | None = None,
    moved_to: Path | None = None,
    read_only: Sequence[Path] = (),
    merging: bool = False,
) -> Outcome:
    """Carry out a plan, and return what became of the files.

    Args:
        folder: Folder of the results, which holds the plan and gets the journal.
        way: What to do with the files.
        index: The index that keeps the decisions; None for the one that the search used.
        moved_to: Destination of "move"; None for `folder`/moved.
        read_only: Sources that must not be touched, besides those that the search noted.
        merging: Whether what a file notes and the kept one lacks is written into a sidecar of the kept one, and files go that
            nothing else keeps.

    Raises:
        UserError: There is no plan, it is invalid, its index or what is to be protected does not exist, the disk is full, or
            another process is carrying out a plan.
    """
    rows = read_plan(folder / PLAN)
    rejected = _read_rejected_pairs(folder, index)
    notes = read_notes(folder) if (folder / SEARCH).exists() else SearchNotes((), ())
    guarded = [*find_read_only(read_only), *filter(is_there, notes.read_only)]
    place = (moved_to or folder / MOVED).resolve()
    refuse_within(moved_to or place, guarded, "--to")
    if moved_to is not None:
        refuse_within(moved_to, notes.sources, "--to", "was searched")
    if held := next((row.file for row in rows if row.file.is_relative_to(place)), None):
        raise UserError(
            f"{place} holds {held}, which the plan names, and what is moved is not searched again. Name another --to."
        )
    with _hold_journal(folder) as journal:
        return apply_plan(rows, way, journal, place, check_within(guarded), rejected, merging)


def take_back(folder: Path) -> Outcome:
    """Undo what the journal in a folder of results records, and return what became of the files.

    Raises:
        UserError: There is no such journal, it is damaged, the disk is full, or another process is carrying out a plan.
    """
    if not is_there(folder / JOURNAL):
        raise UserError(
            f"nothing to undo: {folder / JOURNAL} does not exist. Name the folder of the results with --output."
        )
    with _hold_journal(folder) as journal:
        return undo(journal)


def list_removed(folder: Path) -> set[Path]:
    """Return the files that a plan removed, and that were not put back since; none where that cannot be seen now."""
    if (folder / JOURNAL).exists():
        with suppress(UserError), closing(Journal(folder / JOURNAL)) as journal:
            return {step.file for step in journal.in_state("done") if step.way != MERGE}
    return set()


def report_outcome(folder: Path, outcome: Outcome, what: Way | Literal["undo"], output: Output) -> int:
    """Say what became of the files of a plan; return the exit code: 0, or 1 if files were left alone."""
    for path in outcome.done:
        output.record("done", {"action": what, "file": path})
    for number, (path, reason) in enumerate(outcome.left):
        output.record("left", {"action": what, "file": path, "reason": reason})
        if number < MAX_PRINTED_FILES:
            output.say(f"left alone: {path}: {reason}")
    if len(outcome.left) > MAX_PRINTED_FILES:
        output.say(f"… and {len(outcome.left) - MAX_PRINTED_FILES} more")
    output.say(f"{what}: {count(len(outcome.done), 'file')} done, {len(outcome.left)} left alone")
    if what != "undo":
        command = f"{name_command('match')} --undo --output {shlex.quote(text_of(folder))}"
        output.say(f"journal: {folder / JOURNAL}; take everything back with: {command}")
    return 1 if outcome.left else 0


@contextmanager
def _hold_journal(folder: Path) -> Iterator[Journal]:
    with hold_lock_file(_lock(), BUSY_MESSAGE), closing(Journal(folder / JOURNAL)) as journal:
        yield journal


def _lock() -> Path:
    """Return the path of the lock that all plans of a user share, whatever folder for temporary files a process was given."""
    own = find_home_trash().parent
    there = next(folder for folder in (own, *own.parents) if is_there(folder))
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    shared = own if os.access(there, os.W_OK) else Path(tempfile.gettempdir())
    return shared / f"image-copy-detection-{user}.lock"


def _read_rejected_pairs(folder: Path, index: Path | None) -> frozenset[Pair]:
    """Return the pairs of contents that a person has called no copies; none in a folder without a search."""
    if index is None and not (folder / SEARCH).exists() and not (folder / OWN_INDEX).exists():
        return frozenset()
    words = Decisions(find_index(index, folder)).words()
    return frozenset(pair for pair, word in words.items() if word == "not-a-copy")


def find_read_only(sources: Sequence[Path]) -> list[Path]:
    """Return the paths of sources that must not be touched, each `@list.txt` replaced by what it names.

    Raises:
        UserError: One does not exist, or a list cannot be read or is empty.
    """
    guarded = list(map(known_path, expand_sources(sources)))
    if missing := [path for path in guarded if not is_there(path)]:
        raise UserError(
            f"--read-only {missing[0]}: there is no such file or folder. Name what must never be touched."
        )
    return guarded


def check_within(places: Sequence[Path]) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is one of some places, or below one of them."""

    def is_within(path: Path) -> bool:
        real = known_path(path)  # a plan that a person wrote may lead there through a link
        return any(place == real or place in real.parents for place in places)

    return is_within


def refuse_within(folder: Path, places: Sequence[Path], option: str, why: str = "is read-only") -> None:
    """Refuse to write into one of some places, or below one, in words: `why` follows the place.

    Raises:
        UserError: The folder is there.
    """
    for place in map(known_path, places):
        if check_within([place])(folder):
            raise UserError(f"{option} {folder} is in {place}, which {why}. Name a folder elsewhere.")
