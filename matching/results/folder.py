"""The folder that match.py writes its results into: who may write there, and what the search was."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.data.locks import hold_lock_file
from image_copies.matching.files.keeping import KEEP_RULES, KeepRule

MATCHES, GROUPS, HUBS, PLAN = "matches.csv", "groups.csv", "hubs.csv", "plan.csv"
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
    """What later commands need to know of a search.

    Attributes:
        index: absolute path of the index that was searched, where decisions are kept; None for the one in the results' folder.
        keep: by which rule the plan chose the files to keep.
        threshold: the lowest score of a copy; None where nothing decided it.
        preferred: patterns of paths of files that it chose before others.
        read_only: absolute paths of folders in which nothing is to be changed.
        sources: absolute paths of the folders and files that were searched.
        references: whether queries were searched among references, not among themselves.
    """

    index: str | None = None
    keep: KeepRule = "largest"
    threshold: float | None = None
    preferred: Sequence[str] = ()
    read_only: Sequence[str] = ()
    sources: Sequence[str] = ()
    references: bool = False

    def index_in(self, folder: Path) -> Path:
        """Return the index of the results in this folder."""
        return folder / OWN_INDEX if self.index is None else Path(self.index)


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
    write_text(folder / SEARCH, json.dumps(asdict(notes)) + "\n")


def read_notes(folder: Path) -> SearchNotes:
    """Read the notes on a search.

    Raises:
        UserError: there are none, or the file is damaged.
    """
    path = folder / SEARCH
    try:
        notes = SearchNotes(**json.loads(path.read_text(encoding="utf-8")))
        valid = notes.keep in KEEP_RULES and isinstance(notes.index, (str, type(None)))
        valid = valid and all(
            isinstance(word, str) for word in [*notes.preferred, *notes.read_only, *notes.sources]
        )
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there are no results of a search. Search first: {name_command('match')} DIR writes them."
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}). Search again.") from error
    if not valid or not isinstance(notes.threshold, (float, int, type(None))):
        raise UserError(f"{path} does not hold the values that a search writes. Search again.")
    return notes
