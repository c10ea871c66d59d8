"""What sources name: the files below folders, here and on object stores, in the order of their names, and lists of sources."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from pathlib import Path

from ..errors import UserError
from ..files import describe_no_folder, is_file, is_folder, open_regular, write_text
from ..remote import READERS, RemotePath, as_path, is_remote
from ..threads import map_in_threads


def known_path(path: Path) -> Path:
    """Return the one path of a file or folder, which need not exist: links on the way to it are resolved.

    A link to a file is known by its own name, one to a folder is that folder.
    """
    if is_remote(path):
        return path
    if is_folder(path):  # also where one may not look
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent)) / path.name


def find_files(
    source: Path,
    skipped: Set[str],
    hidden: bool = True,
    failed: list[OSError] | None = None,
    aside: list[Path] | None = None,
) -> Iterator[Path]:
    """Yield a file that is named, or what is below a folder, as of `walk`, by their known paths.

    Raises:
        UserError: there is neither.
    """
    if is_folder(source):
        yield from walk(known_path(source), skipped, hidden, failed, aside)
    else:
        check_there(source)
        yield known_path(source)


def check_there(source: Path) -> None:
    """Check that a source is a file or a folder.

    Raises:
        UserError: it is neither.
    """
    if not is_file(source) and not is_folder(source):
        raise UserError(
            f"{describe_no_folder(source)}. Name a folder that holds images, an archive, a picture or @list.txt."
        )


def walk(
    folder: Path,
    skipped: Set[str] = frozenset(),
    hidden: bool = True,
    failed: list[OSError] | None = None,
    aside: list[Path] | None = None,
) -> Iterator[Path]:
    """Yield what is below a folder and is no folder, in the order of the names; links to folders are not followed.

    Folders that are set aside (`aside.py`) are passed over.

    Args:
        folder: The folder, which must exist.
        skipped: Paths of files and folders that are passed over.
        hidden: Whether hidden files are listed, and hidden folders opened.
        failed: Where the errors of folders that cannot be opened are collected.
        aside: Where the folders that are set aside are collected.
    """
    if isinstance(folder, RemotePath):
        yield from _walk_store(list(folder.iterdir()), skipped, hidden)
        return
    waiting = [iter(_list(os.fspath(folder), failed))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif entry.path in skipped or (entry.name.startswith(".") and not hidden):
            continue
        elif entry.is_dir(follow_symlinks=False):
            below = _list(entry.path, failed)
            if not is_set_aside(entry.name, [each.name for each in below]):
                waiting.append(iter(below))
            elif aside is not None:
                aside.append(Path(entry.path))
        elif not (entry.is_symlink() and is_folder(Path(entry.path))):
            yield Path(entry.path)


def _list(folder: str, failed: list[OSError] | None) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if failed is not None:
            failed.append(error)
        return []


def _walk_store(entries: Sequence[RemotePath], skipped: Set[str], hidden: bool) -> Iterator[RemotePath]:
    """Yield the files below a folder of an object store, given by what is in it; several folders are listed at once."""
    shown = [
        path for path in entries if str(path) not in skipped and (hidden or not path.name.startswith("."))
    ]
    below = map_in_threads(
        lambda folder: list(folder.iterdir()), (path for path in shown if path.state is None), READERS
    )
    for path in shown:
        yield from _walk_store(next(below), skipped, hidden) if path.state is None else (path,)


def expand_sources(sources: Iterable[Path]) -> Iterator[Path]:
    """Yield the sources, with each `@list.txt` replaced by the sources that it names, relative to its folder.

    Raises:
        UserError: a list cannot be read or is empty.
    """
    for source in sources:
        if not os.fspath(source).startswith("@"):
            yield source
            continue
        listing, named = as_path(Path(os.fspath(source)[1:])), 0
        try:
            with open_regular(listing) as file:
                for line in file:  # there may be millions, and names may hold other line breaks
                    name = os.fsdecode(line).rstrip("\n").rstrip("\r")
                    if name.strip() and not name.startswith("#"):
                        named += 1
                        yield (
                            place
                            if isinstance(place := as_path(name), RemotePath)
                            else listing.parent / name
                        )
        except OSError as error:
            raise UserError(f"the list {listing} cannot be read ({error.strerror or error}).") from error
        if not named:
            raise UserError(f"the list {listing} names nothing: write one file or folder per line.")


MARK = ".not-searched"  # a file in such a folder
TEXT = "image-copies made this folder. Searches of a folder above pass it over; named itself, it is searched.\n"
TRASH = re.compile(r"\.Trash(es|-\d+)?|\$RECYCLE\.BIN|RECYCLER|\.thumbnails", re.IGNORECASE)
DESKTOP_TRASH = {"files", "info"}  # in a folder named Trash, as specified by freedesktop.org


def is_set_aside(name: str, held: Collection[str]) -> bool:
    """Whether a folder of this name, which holds entries of these names, is a trash or has the mark."""
    return (
        MARK in held
        or TRASH.fullmatch(name) is not None
        or (name == "Trash" and set(held) >= DESKTOP_TRASH)
    )


def set_aside(folder: Path) -> None:
    """Make a folder, if there is none, and mark it.

    Raises:
        OSError: It cannot be written.
        UserError: The disk is full.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / MARK).exists():
        write_text(folder / MARK, TEXT)
