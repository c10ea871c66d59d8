"""Paths as the index knows them, and which of them are protected."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from data.remote import is_remote


def indexed_path(path: Path) -> Path:
    """Return the absolute path by which the index knows a file or a folder, which need not exist any more."""
    if is_remote(path):
        return path
    if path.is_dir():
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent)) / path.name  # a link to a file is known by its own name


def make_protection_check(folders: Sequence[Path]) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is protected: one of `folders`, or below one of them."""
    guarded = [indexed_path(path) for path in folders]
    return lambda path: any(place == path or place in path.parents for place in guarded)
