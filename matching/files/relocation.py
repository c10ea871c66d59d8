"""Moving one file without ever overwriting or losing anything, also across disks and with a kill at any moment."""

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from image_copies.data.files import digest_file, remove_leftovers, temporary_prefix

HARD_LINK_UNSUPPORTED = {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def relocate(file: Path, place: Path, sha256: str, resumed: bool = False) -> None:
    """Move a file with these bytes to a free path; `resumed`: an earlier call may have been killed with the file there already.

    The file is first hard-linked (on another disk: copied), and removed from its old path only after the new one has been read
    and holds its bytes. So one of the two paths has the complete file at every moment, even if several processes, which no lock
    keeps apart, move the same file.

    Raises:
        FileExistsError: when `place` is taken, or one of the two paths holds other bytes.
        FileNotFoundError: when the file is gone.
        OSError: when it cannot be moved; it then stays at its old path.
    """
    if resumed and os.path.lexists(place):
        remove_leftovers(place.parent)  # a kill may have come between the last two steps of a copy
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
    except OSError:  # no right to remove it: it stays where it was, and only there
        if digest_if_regular(file) == sha256:
            place.unlink()
        raise


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "another file has taken its place", os.fspath(path))


def digest_if_regular(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a regular file; empty for anything else, including links."""
    return "" if path.is_symlink() or not path.is_file() else digest_file(path)


def _link_or_copy(file: Path, place: Path, sha256: str) -> None:
    try:
        os.link(file, place, follow_symlinks=False)  # fails where something lies, so it overwrites nothing
        return
    except OSError as error:
        if error.errno not in HARD_LINK_UNSUPPORTED:
            raise
    remove_leftovers(place.parent)
    handle, name = tempfile.mkstemp(prefix=temporary_prefix(place), suffix=".part", dir=place.parent)
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
