"""Moving one file without overwriting or losing anything, across disks and with a kill at any moment; and where the trash is.

The trash is the desktop's: as specified by freedesktop.org on Linux, `~/.Trash` on macOS, elsewhere a given folder.
"""

import errno
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from image_copies.data import files

HARD_LINK_UNSUPPORTED = {
    errno.EXDEV,
    errno.EPERM,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EACCES,
}
NOTE = ".trashinfo"
MAX_NAME_BYTES = 255  # of a name, on every common disk


def relocate(file: Path, place: Path, sha256: str, resumed: bool = False) -> None:
    """Move a file with these bytes to a free path; `resumed`: a kill may have left the file there already.

    The file is first hard-linked (on another disk: copied), and removed from its old path only after the new one has been read
    and holds its bytes. So one of the two paths has the complete file at every moment, even if several processes, which no lock
    keeps apart, move the same file.

    Raises:
        FileExistsError: when `place` is taken, or one of the two paths holds other bytes.
        FileNotFoundError: when the file is gone.
        OSError: when it cannot be moved; it then stays at its old path.
    """
    if resumed and os.path.lexists(place):
        files.remove_leftovers(place.parent)  # a kill may have come between the last two steps of a copy
    else:
        _make_folder(place.parent, file.parent)
        _link_or_copy(file, place, sha256)
    if digest_if_regular(place) != sha256:
        raise _taken(place)
    if not os.path.lexists(file):
        return  # removed before a kill, or by another process
    if not file.samefile(place) and digest_if_regular(file) != sha256:
        raise _taken(file)
    try:
        file.unlink(missing_ok=True)
    except OSError as error:  # it stays where it was, and only there
        if digest_if_regular(file) == sha256:
            place.unlink()
        raise OSError(error.errno, f"it cannot be removed from its folder ({error.strerror})") from error


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "another file has taken its place", os.fspath(path))


def digest_if_regular(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a regular file; empty for anything else, including links."""
    return "" if path.is_symlink() or not path.is_file() else files.digest_file(path)


def _link_or_copy(file: Path, place: Path, sha256: str) -> None:
    try:
        os.link(file, place, follow_symlinks=False)  # fails where something lies, so it overwrites nothing
        return
    except OSError as error:
        if error.errno not in HARD_LINK_UNSUPPORTED:
            raise
    files.remove_leftovers(place.parent)
    handle, name = tempfile.mkstemp(prefix=files.temporary_prefix(place), suffix=".part", dir=place.parent)
    copied = Path(name)
    try:
        with file.open("rb") as source, os.fdopen(handle, "wb") as target:
            shutil.copyfileobj(source, target, 2**20)
            target.flush()
            os.fsync(target.fileno())
        _copy_owner(file, copied)
        shutil.copystat(file, copied)
        if digest_if_regular(copied) != sha256:
            raise OSError(errno.EIO, "the copy differs from the file", os.fspath(place))
        _rename_to_free_place(copied, place)
    except BaseException:
        copied.unlink(missing_ok=True)
        raise


def _rename_to_free_place(copied: Path, place: Path) -> None:
    try:
        os.link(copied, place)
        copied.unlink()
    except OSError as error:
        if error.errno not in HARD_LINK_UNSUPPORTED:
            raise
        if os.path.lexists(place):  # a disk without hard links: looked at just before
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(place)) from error
        copied.rename(place)


def _make_folder(folder: Path, like: Path) -> None:
    """Make a folder and those above it, no more open to others than those of `like` with the same names, and of their owners."""
    if folder.is_dir():
        return
    _make_folder(folder.parent, like.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.name == like.name:
        _copy_owner(like, folder)
        folder.chmod(like.stat().st_mode & 0o755 | 0o700)


def _copy_owner(source: Path, target: Path) -> None:
    state = source.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(target, state.st_uid, state.st_gid)


def find_trash(file: Path, spare: Path) -> Path:
    """Return the trash folder on a file's disk, so that moving it there copies nothing; `spare` where none can be used."""
    if sys.platform == "win32":
        return spare
    home = Path.home() / ".Trash" if sys.platform == "darwin" else find_home_trash()
    device = file.lstat().st_dev
    there = next(folder for folder in (home, *home.parents) if files.is_there(folder))
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
    return (
        trash if (_is_own_folder(trash) if os.path.lexists(trash) else os.access(top, os.W_OK)) else spare
    )


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
    files.write_text(note, f"[Trash Info]\n{_path_line(file)}\nDeletionDate={stamp}\n")


def is_note_of(note: Path, file: Path) -> bool:
    """Whether a note is there and has this original path; False where it cannot be read."""
    try:
        with files.open_regular(note) as content:
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
