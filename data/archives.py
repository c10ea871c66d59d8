"""Pictures inside tar and zip archives, read without unpacking.

A member has the path `archive.zip/name/inside.jpg`. Nothing is ever written, so a member's name cannot lead anywhere; names that
are absolute or contain `..` are refused all the same. Sizes are bounded: an archive that unfolds into far more than it holds
is refused before it fills the memory.
"""

import os
import tarfile
import threading
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from data.errors import UserError
from data.files import open_regular

ARCHIVE_ENDINGS = (".zip", ".cbz", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".cbt")
LARGEST_MEMBER = 256 * 2**20  # bytes, unpacked
LARGEST_RATIO = 200  # unpacked bytes of a tar for one of its own
LEAST_SUSPECT = 2**30  # unpacked bytes below which no ratio is suspect
KEPT_OPEN = 4
DAMAGED = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    KeyError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Listing:
    """What an archive holds.

    Attributes:
        members: names of its regular files, in the order in which they lie there.
        refused: names that are not read, by the reason.
    """

    members: list[str]
    refused: dict[str, list[str]]


@dataclass(frozen=True)
class _Archive:
    listing: Listing
    read: Callable[[str, int], bytes]
    close: Callable[[], None]


@dataclass
class _Opened(threading.local):
    """Archives that this thread has open; a file position cannot be shared."""

    archives: OrderedDict[tuple[object, ...], _Archive] = field(default_factory=OrderedDict)


_opened = _Opened()


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive that can be read."""
    return path.name.lower().endswith(ARCHIVE_ENDINGS)


def archive_of(path: Path) -> Path | None:
    """Return the archive file that a member's path lies in; None for other paths."""
    return next((parent for parent in path.parents if is_archive(parent) and parent.is_file()), None)


def list_archive(path: Path) -> Listing:
    """List an archive.

    Raises:
        UserError: it cannot be read, or unfolds into far more than it holds.
    """
    return _archive(path).listing


def read_member(archive: Path, name: str, limit: int = LARGEST_MEMBER) -> bytes:
    """Return a member's bytes, or its first `limit` ones if it is asked for fewer than `LARGEST_MEMBER`.

    Raises:
        UserError: no such member, damaged, or larger than `LARGEST_MEMBER`.
    """
    opened = _archive(archive)
    try:
        content = opened.read(name, min(limit, LARGEST_MEMBER + 1) if limit < LARGEST_MEMBER else LARGEST_MEMBER + 1)
    except DAMAGED as error:
        raise UserError(f"{archive}: its member {name!r} cannot be read ({error}).") from error
    if len(content) > LARGEST_MEMBER:
        raise UserError(f"{archive}: its member {name!r} is larger than {LARGEST_MEMBER // 2**20} MiB unpacked; it is not read.")
    return content


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Return the bytes of a file or of an archive's member.

    Args:
        path: a file, or `archive.zip/name/inside.jpg`.
        limit: only this many bytes from the beginning.

    Raises:
        OSError: the file cannot be read.
        UserError: the archive or its member cannot be read.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return file.read(size if limit is None else min(size, limit))
    except (NotADirectoryError, FileNotFoundError):
        archive = archive_of(path)
        if archive is None:
            raise
        return read_member(archive, path.relative_to(archive).as_posix(), LARGEST_MEMBER if limit is None else limit)


def _archive(path: Path) -> _Archive:
    try:
        state = path.stat()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error
    key = os.fspath(path), state.st_size, state.st_mtime_ns, os.getpid()
    opened = _opened.archives
    if key not in opened:
        try:
            opened[key] = _open_zip(path) if path.name.lower().endswith((".zip", ".cbz")) else _open_tar(path, state.st_size)
        except DAMAGED as error:
            raise UserError(f"{path} is not an archive that can be read ({error}).") from error
        while len(opened) > KEPT_OPEN:
            opened.popitem(last=False)[1].close()
    opened.move_to_end(key)
    return opened[key]


def _open_zip(path: Path) -> _Archive:
    archive = zipfile.ZipFile(path)
    found = {info.filename: info for info in archive.infolist() if not info.is_dir()}
    listing = _listing(found, lambda name: "encrypted" if found[name].flag_bits & 1 else None)

    def read(name: str, limit: int) -> bytes:
        with archive.open(found[name]) as member:
            return member.read(limit)

    return _Archive(listing, read, archive.close)


def _open_tar(path: Path, size: int) -> _Archive:
    archive = tarfile.open(path)  # noqa: SIM115 - kept open for the members
    found: dict[str, tarfile.TarInfo] = {}
    unpacked = 0
    for info in archive:
        unpacked += max(info.size, 0)
        if unpacked > max(LEAST_SUSPECT, LARGEST_RATIO * size):
            archive.close()
            raise UserError(f"{path} unfolds into more than {unpacked // 2**30} GiB from {size / 2**20:.1f} MiB: it is not read.")
        if info.isreg():
            found[info.name] = info

    def read(name: str, limit: int) -> bytes:
        member = archive.extractfile(found[name])
        return b"" if member is None else member.read(limit)

    return _Archive(_listing(found, lambda name: None), read, archive.close)


def _listing(names: dict[str, zipfile.ZipInfo] | dict[str, tarfile.TarInfo], reason: Callable[[str], str | None]) -> Listing:
    members: list[str] = []
    refused: dict[str, list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        unsafe = path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name
        why = "unsafe name in an archive" if unsafe else reason(name)
        if why is None:
            members.append(name)
        else:
            refused.setdefault(why, []).append(name)
    return Listing(members, refused)
