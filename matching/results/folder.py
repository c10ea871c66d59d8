"""The folder that match.py writes its results into: who may write there, and what the search was."""

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.data.locks import hold_lock_file

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
# by a search
WRITTEN = (MATCHES, GROUPS, HUBS, PLAN, OWN_INDEX, UNREADABLE, LEAKAGE, FOLDERS)


@dataclass(frozen=True)
class SearchNotes:
    """What later commands need to know of a search; paths are absolute.

    Attributes:
        index: The index that was searched, where decisions are kept; None for the one in the results' folder.
        threshold: The lowest score of a copy; None where nothing decided it.
        read_only: Folders in which nothing is to be changed.
        sources: The folders and files that were searched.
        references: Whether queries were searched among references, not among themselves.
    """

    index: Path | None = None
    threshold: float | None = None
    read_only: Sequence[Path] = ()
    sources: Sequence[Path] = ()
    references: bool = False


NOTES: TypeAdapter[SearchNotes] = TypeAdapter(SearchNotes)


def hold_results_folder(folder: Path) -> AbstractContextManager[None]:
    """Lock the folder of the results against other processes.

    Raises:
        UserError: another search is writing into it, it is a file, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"--output {folder} is a file. Name a folder.") from error
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
        found = json.loads(path.read_text(encoding="utf-8"))
        notes = NOTES.validate_python(found)
        if not {"read_only", "sources"} <= found.keys():  # else nothing would be read-only
            raise ValueError("what is read-only is not there")
        return notes
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there are no results of a search. Search first: {name_command('match')} DIR writes them."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read, or does not hold the values that a search writes. Search again."
        ) from error
