"""The desktop's trash: as specified by freedesktop.org on Linux, `~/.Trash` on macOS, elsewhere a given folder."""

import os
import stat
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from image_copies.data.files import is_there, open_regular, write_text

NOTE = ".trashinfo"
MAX_NAME_BYTES = 255  # of a name, on every common disk


def find_trash(file: Path, spare: Path) -> Path:
    """Return the trash folder on a file's disk, so that moving it there copies nothing; `spare` where none can be used."""
    if sys.platform == "win32":
        return spare
    home = Path.home() / ".Trash" if sys.platform == "darwin" else find_home_trash()
    device, there = file.lstat().st_dev, next(folder for folder in (home, *home.parents) if is_there(folder))
    if there.stat().st_dev == device and os.access(there, os.W_OK):
        return home
    if sys.platform == "darwin":
        return spare
    top = next(
        folder
        for folder in (file.parent, *file.parents)
        if os.path.ismount(folder) or folder == folder.parent
    )
    trash = top / f".Trash-{os.getuid()}"
    return trash if (_is_own_folder(trash) if os.path.lexists(trash) else os.access(top, os.W_OK)) else spare


def find_trash_place(file: Path, trash: Path) -> tuple[Path, Path | None]:
    """Return a free path in the trash for a file, and the path of its .trashinfo note; None if the trash has no notes."""
    noted = sys.platform.startswith("linux")
    folder = trash / "files" if noted else trash
    number = 1
    while True:
        name = _shorten(file.stem, (f".{number}" if number > 1 else "") + file.suffix)
        note = trash / "info" / (name + NOTE) if noted else None
        if not os.path.lexists(folder / name) and (note is None or not os.path.lexists(note)):
            return folder / name, note
        number += 1


def _shorten(stem: str, ending: str) -> str:
    """Return a name that leaves room for the ending of its note, where a disk allows it."""
    while stem and len(os.fsencode(stem + ending + NOTE)) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return stem + ending


def write_note(note: Path, file: Path) -> None:
    """Write the original path of a file in the trash, so that the desktop can restore it."""
    stamp = datetime.now().isoformat(timespec="seconds")
    write_text(note, f"[Trash Info]\n{_path_line(file)}\nDeletionDate={stamp}\n")


def is_note_of(note: Path, file: Path) -> bool:
    """Whether a note is there and has this original path; False where it cannot be read."""
    try:
        with open_regular(note) as content:
            return _path_line(file).encode() in content.read().splitlines()
    except OSError:
        return False


def remove_orphaned_note(note: Path, file: Path, place: Path) -> None:
    """Remove the note with this original path if its file is not in the trash; notes of other files stay."""
    with suppress(OSError):
        if not os.path.lexists(place) and is_note_of(note, file):
            note.unlink()


def _path_line(file: Path) -> str:
    return f"Path={quote(os.fsencode(file))}"


def _is_own_folder(path: Path) -> bool:
    """Whether a path is a folder of the user's and no link: in a folder that all may write to, somebody else may have made it."""
    state = path.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()


def find_home_trash() -> Path:
    """Return the trash in the user's folder for data, also where there is none yet."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "Trash"
