"""Paths as the index knows them, and which of them are protected."""

from collections.abc import Callable, Sequence
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import is_there
from image_copies.data.sources.walking import expand_sources, known_path


def indexed_sources(sources: Sequence[Path]) -> list[Path]:
    """Return the paths of sources as the index knows them, each `@list.txt` replaced by what it names.

    Raises:
        UserError: a list cannot be read or is empty.
    """
    return list(map(known_path, expand_sources(sources)))


def make_protection_check(sources: Sequence[Path]) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is protected: one of `sources`, or below one of them.

    Raises:
        UserError: a source does not exist, or a list cannot be read or is empty.
    """
    guarded = indexed_sources(sources)
    if missing := [path for path in guarded if not is_there(path)]:
        raise UserError(
            f"--protect or --read-only {missing[0]}: there is no such file or folder. Name what must never be touched."
        )

    def is_protected(path: Path) -> bool:
        real = known_path(path)  # a plan that a person wrote may lead there through a link
        return any(place == real or place in real.parents for place in guarded)

    return is_protected


def refuse_within(folder: Path, places: Sequence[Path], option: str, why: str = "is read-only") -> None:
    """Refuse to write into one of some places, or below one, in words: `why` follows the place.

    Raises:
        UserError: the folder is there.
    """
    real = known_path(folder)
    for place in map(known_path, places):
        if place == real or place in real.parents:
            raise UserError(f"{option} {folder} is in {place}, which {why}. Name a folder elsewhere.")
