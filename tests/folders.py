"""What a folder holds, to be compared before and after; and files of which only the names matter."""

import os
from pathlib import Path


def touch(folder: Path, *names: str) -> None:
    """Write files that hold next to nothing."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def read_tree(folder: Path) -> dict[str, bytes]:
    """Return every file and link below a folder by its relative path: a file's bytes, and "-> " with where a link leads."""
    return {
        str(path.relative_to(folder)): b"-> " + os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }
