"""Moving one file without ever overwriting or losing anything, also across disks and with a kill at any moment."""

import errno
import glob
import hashlib
import os
import shutil
from pathlib import Path

HARD_LINK_UNSUPPORTED = {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def relocate(file: Path, place: Path, sha256: str) -> None:
    """Move a file to a free path; can be called again after a kill.

    The file is first hard-linked (on another disk: copied and compared) and only then removed from its old path, so that at every
    moment one of the two paths has the complete file.

    Args:
        file: The file to move.
        place: Its new path.
        sha256: Hexadecimal SHA-256 of the file's bytes.

    Raises:
        FileExistsError: when `place` is another file.
        FileNotFoundError: when the file is gone.
        OSError: when it cannot be moved; it then stays at its old path.
    """
    if os.path.lexists(place):
        if not os.path.lexists(file) and digest_of_file(place) == sha256:
            return  # done before a kill
        if not (os.path.lexists(file) and digest_of_file(place) == sha256):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(place))
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        _link_or_copy(file, place, sha256)
    try:
        file.unlink()
    except OSError:
        place.unlink()  # no right to remove it: it stays where it was, and only there
        raise


def digest_of_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a regular file; empty for anything else, including links."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link_or_copy(file: Path, place: Path, sha256: str) -> None:
    try:
        os.link(file, place, follow_symlinks=False)  # fails where something lies, so it overwrites nothing
        return
    except OSError as error:
        if error.errno not in HARD_LINK_UNSUPPORTED:
            raise
    for old in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
        old.unlink()  # of a process that was killed
    copied = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with file.open("rb") as source, copied.open("xb") as target:
            shutil.copyfileobj(source, target, 2**20)
            target.flush()
            os.fsync(target.fileno())
        shutil.copystat(file, copied)
        if digest_of_file(copied) != sha256:
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
