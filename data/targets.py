"""Where a command may write: to a new path, or over what it wrote there itself, but over nothing else."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .errors import UserError
from .files import is_file, is_folder, is_there


def check_target(
    path: Path, option: str, kinds: Mapping[str, Callable[[Path], bool]], inputs: Iterable[Path | None] = ()
) -> None:
    """Check that a file may be written to the path that an option names, before hours are spent on what it is to hold.

    Args:
        path: The path.
        option: The option that names it, for messages.
        kinds: For each ending that is written, what tells whether an existing file holds what is written under it.
        inputs: Files that the command reads.

    Raises:
        UserError: The path has another ending, is a folder or one of the inputs, or is a file that holds anything else.
    """
    is_own = kinds.get(path.suffix.lower())
    if is_own is None:
        raise UserError(
            f"{option} {path}: the name must end in {' or '.join(kinds)}, which says what is written."
        )
    if not is_there(path):
        return
    if not is_file(path):
        raise UserError(f"{option} {path} is not a file: it is left alone. Name a file to write.")
    if any(os.path.realpath(path) == os.path.realpath(source) for source in inputs if source is not None):
        raise UserError(
            f"{option} {path} is read by this command, too: it is left alone. Choose another {option}."
        )
    if path.stat().st_size and not is_own(path):
        raise UserError(
            f"{option} {path} exists and does not hold what this command writes: it is left alone. Choose another {option}, or "
            "delete the file."
        )


def check_target_folder(
    folder: Path, option: str, marks: Iterable[str], written: Iterable[str] | None = None
) -> None:
    """Check that a command may write into the folder that an option names: it is missing or empty, or was written by it.

    Args:
        folder: The folder.
        option: The option that names it, for messages.
        marks: Names of files, one of which every folder has that the command wrote.
        written: Names that would be replaced; None for any. A folder without them may hold anything else.

    Raises:
        UserError: It is a file, or holds such names, and none of the marks.
    """
    if not is_folder(folder) and is_there(folder):
        raise UserError(f"{option} {folder} is a file: it is left alone. Choose another {option}.")
    if not is_folder(folder) or any(is_file(folder / mark) for mark in marks):
        return
    names = (
        (path.name for path in folder.iterdir())
        if written is None
        else (n for n in written if is_there(folder / n))
    )
    if (name := next(iter(names), None)) is not None:
        raise UserError(
            f"{option} {folder} holds {name}, and nothing there says that this command wrote it: it is left alone. Choose "
            f"another {option}."
        )


def begins_with(*starts: bytes) -> Callable[[Path], bool]:
    """Return a function that tells whether a file begins with one of these bytes."""

    def is_own(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(max(map(len, starts))).startswith(starts)

    return is_own
