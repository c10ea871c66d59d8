"""Files and folders that appear whole or not at all."""

import errno
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from data.errors import UserError
from data.process import runs

HOST = socket.gethostname()
FEW = 100  # files that are flushed one by one


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; it is renamed to `path` on success and removed on any error.

    Its bytes reach the disk before the name does: after a power cut `path` is the old file or the whole new one. What a
    killed process left behind is removed by the next call in the same folder.

    Raises:
        UserError: the disk is full.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path.parent)
    handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=f".part{path.suffix}", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o666 & ~_umask())
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    except BaseException as error:
        size = temporary.stat().st_size if temporary.is_file() else 0
        temporary.unlink(missing_ok=True)
        if os.strerror(errno.ENOSPC) in str(error):  # the libraries' own errors carry no errno
            raise UserError(
                f"{path} cannot be written: the disk is full after {size / 2**20:.1f} MiB of it. What is finished is whole: make "
                "room and give the same command again."
            ) from error
        raise


def open_regular(path: Path) -> BufferedReader:
    """Open for reading; OSError where the path is a pipe, a device or a folder, which could be read without end or never."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return path.open("rb")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it takes the place of `path` on success and is removed on any error.

    Its files reach the disk before the name does. An older folder is moved aside first, so that only an instant is without one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".part", dir=path.parent))
    temporary.chmod(0o777 & ~_umask())
    try:
        yield temporary
        _flush_below(temporary)
        old = temporary.with_name(f"{_prefix(path)}old.part")
        if path.exists():
            path.replace(old)
        temporary.replace(path)
        _flush(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty where the file is missing or holds anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _flush(path: Path) -> None:
    """Wait until a file or a folder's list of names is on the disk, as far as the system can promise it."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that know no such wait
            raise
    finally:
        os.close(handle)


def _flush_below(folder: Path) -> None:
    paths = [path for path in folder.rglob("*") if not path.is_symlink()]
    if len(paths) > FEW and hasattr(os, "sync"):
        os.sync()  # one wait for all
        return
    for path in (*paths, folder):
        _flush(path)


def _prefix(path: Path) -> str:
    """Name the writer, so that the leftovers of a killed process can be distinguished from what another one is writing."""
    return f".{path.name}.{HOST}-{os.getpid()}-"


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders of dead processes of this machine: they may be as large as a cache."""
    owner = re.compile(rf"\..*\.{re.escape(HOST)}-(\d+)-[^.]*\.part")
    for path in folder.glob(".*.part*"):
        match = owner.match(path.name)
        if match and not runs(int(match[1])):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
