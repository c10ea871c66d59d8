"""Folders within a source that hold what was removed, or a gallery: nothing in them is searched, nor kept instead of anything."""

import re
from collections.abc import Collection
from pathlib import Path

from image_copies.data.files import write_text

MARK = ".not-searched"  # a file in such a folder
TEXT = "image-copies made this folder. Searches of a folder above pass it over; named itself, it is searched.\n"
TRASH = re.compile(r"\.Trash(es|-\d+)?|\$RECYCLE\.BIN|RECYCLER|\.thumbnails", re.IGNORECASE)
DESKTOP_TRASH = {"files", "info"}  # in a folder named Trash, as specified by freedesktop.org


def is_set_aside(name: str, held: Collection[str]) -> bool:
    """Whether a folder of this name, which holds entries of these names, is a trash or has the mark."""
    return MARK in held or TRASH.fullmatch(name) is not None or (name == "Trash" and set(held) >= DESKTOP_TRASH)


def set_aside(folder: Path) -> None:
    """Make a folder, if there is none, and mark it.

    Raises:
        OSError: It cannot be written.
        UserError: The disk is full.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / MARK).exists():
        write_text(folder / MARK, TEXT)
