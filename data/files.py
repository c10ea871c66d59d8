"""Atomic writes: files and folders appear complete or not at all."""

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from .errors import UserError
from .process import is_running
from .remote import RemotePath

HOST = socket.gethostname()
# of a path's name and of its ending in temporary names, which may be no longer than 255 bytes
MAX_PREFIX_CHARACTERS = 30
BLOCK_BYTES = 2**20  # of a file, read at once
MAX_SINGLE_FLUSHES = 100  # a folder of more files is flushed by one os.sync()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write a file atomically: yield a path of the same name in a temporary folder beside it, rename that file on success.

    The bytes are flushed to disk before the rename: after a power cut `path` is either the old file or the complete new one, with
    the rights of the old one. What a library writes next to the file is removed, as is what a killed process left behind, by the
    next call in the same folder.

    A file on an object store is written locally and uploaded whole.

    Raises:
        UserError: the disk is full, or the object store cannot be written to.
    """
    if isinstance(path, RemotePath):
        with tempfile.TemporaryDirectory(prefix="upload-") as folder:
            yield Path(folder) / path.name
            path.upload(Path(folder) / path.name)
        return
    with _folder_beside(path) as place:
        temporary = place / path.name
        temporary.touch()
        mode = (path if is_file(path) else temporary).stat().st_mode
        yield temporary
        temporary.chmod(stat.S_IMODE(mode))  # some libraries let nobody else read it
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder next to `path`, which is removed after the block."""
    place = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        place = Path(tempfile.mkdtemp(prefix=temporary_prefix(path), suffix=".part", dir=path.parent))
        yield place
    except BaseException as error:
        if is_disk_full(error) and not isinstance(error, UserError):
            files = [] if place is None else [below for below in place.rglob("*") if below.is_file()]
            raise disk_full(path, sum(file.stat().st_size for file in files)) from error
        raise
    finally:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error says that the disk is full; h5py, safetensors and others raise errors without an errno."""
    return getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error)


def is_read_only(error: BaseException) -> bool:
    """Return whether an error says that a file or its file system cannot be written; some libraries' errors have no errno."""
    if getattr(error, "errno", None) in (errno.EROFS, errno.EACCES, errno.EPERM):
        return True
    said = str(error)
    return any(
        text in said for text in (os.strerror(errno.EROFS), os.strerror(errno.EACCES), "readonly database")
    )


def disk_full(path: Path, size: int = 0) -> UserError:
    """Return the error to raise where the disk is full; `size` is how many bytes of `path` it took."""
    after = f" after {size / 1e6:.1f} MB of it" if size else ""
    return UserError(
        f"{path} cannot be written: the disk is full{after}. Files already finished are complete: make room and run the same "
        "command again."
    )


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading in binary mode.

    Raises:
        OSError: the path is missing, or a pipe, device or folder, whose reading might block or never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return path.open("rb")


def digest_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a regular file's bytes, up to its size: some files of the kernel's never end.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        digest, left = hashlib.sha256(), path.stat().st_size
        while part := file.read(min(left, BLOCK_BYTES)):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()


def is_there(path: Path) -> bool:
    """Whether a path leads to something; False also where one may not look, for which `Path.exists` raises PermissionError."""
    return path.exists() if isinstance(path, RemotePath) else os.path.exists(path)  # noqa: PTH110


def is_file(path: Path) -> bool:
    """Whether a path leads to a regular file; False also where one may not look."""
    return path.is_file() if isinstance(path, RemotePath) else os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; False also where one may not look, or where no file can have this name."""
    return path.is_dir() if isinstance(path, RemotePath) else os.path.isdir(path)  # noqa: PTH112


def describe_no_folder(path: Path) -> str:
    """Return what a path is that was expected to be a folder, in words."""
    if not is_there(path):
        return f"{path} {'is a link that leads nowhere' if is_link(path) else 'does not exist'}"
    return f"{path} is not a folder"


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link; False also where one may not look."""
    return os.path.islink(path)  # noqa: PTH114


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Write a folder atomically: yield one of the same name in a temporary folder beside it, rename that folder on success.

    Its files are flushed to disk before the rename. An existing folder is moved aside just before, so `path` is missing only for
    an instant; what may not be removed of it, as another user's files, stays beside it under a hidden name.

    Raises:
        UserError: the disk is full.
    """
    with _folder_beside(path) as place:
        temporary = place / path.name
        # a sibling: only its owner may move a folder to another parent
        old = place.with_name(f"{place.name}-old")
        temporary.mkdir()
        yield temporary
        _flush_below(temporary)
        try:
            if path.exists():
                path.replace(old)
            temporary.replace(path)
        except BaseException:
            if old.exists():
                old.replace(path)
            raise
        _flush(path.parent)
        _remove(old)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically, with the same bytes on every system."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; return {} if the file is missing, damaged or contains anything but an object."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError):  # the latter from lists in lists in lists
        return {}
    return content if isinstance(content, dict) else {}


def _flush(path: Path) -> None:
    """Wait until a file, or the directory entries of a folder, are on disk, as far as the system guarantees it."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without fsync
            raise
    finally:
        os.close(handle)


def _flush_below(folder: Path) -> None:
    paths = [path for path in folder.rglob("*") if not path.is_symlink()]
    if len(paths) > MAX_SINGLE_FLUSHES and hasattr(os, "sync"):
        os.sync()  # one flush for all
        return
    for path in (*paths, folder):
        _flush(path)


def temporary_prefix(path: Path) -> str:
    """Return how the name of a temporary file for a path begins; it ends in `.part` and the path's own ending.

    Host and process id are in it, which tells leftovers of a killed process from files that are being written.
    """
    return f".{path.name[:MAX_PREFIX_CHARACTERS]}.{HOST}-{os.getpid()}-"


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of dead processes of this machine; they may be as large as an image cache.

    What another process removes at the same time, or another user wrote, is left to them.
    """
    owner = re.compile(rf"\..*\.{re.escape(HOST)}-(\d+)-[^.]*\.part")
    for path in folder.glob(".*.part*"):
        match = owner.match(path.name)
        if match and not is_running(int(match[1])):
            _remove(path)


def _remove(path: Path) -> None:
    """Remove what is at a path, a file, a link or a folder, as far as this user may."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
