"""Pictures inside tar and zip archives and tables (`tables.py`), read without unpacking.

A member has the path `archive.zip/name/inside.jpg`. Nothing is ever written, so a member's name cannot lead anywhere; names that
are absolute or contain `..` are refused all the same. Sizes are bounded: an archive that unpacks to far more than its own size (a
decompression bomb) is refused before it fills the memory.
"""

import os
import tarfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ..errors import ImageError, UserError
from ..files import is_file, open_regular
from ..remote import RemotePath
from .tables import TABLE_ENDINGS, open_pictures
from .tars import CUT, READ_ERRORS, TAR_ENDINGS, Member, open_tar, walk_tar
from .tars import read_member as read_in_tar

ZIP_ENDINGS = (".zip", ".cbz")
ARCHIVE_ENDINGS = (*ZIP_ENDINGS, *TAR_ENDINGS, ".cbt", *TABLE_ENDINGS)
MAX_MEMBER_BYTES = 256 * 2**20  # bytes, unpacked
MAX_OPEN_ARCHIVES = 4  # per thread
# what damaged files raise
ARCHIVE_ERRORS = (*READ_ERRORS, LookupError, TypeError, RuntimeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Listing:
    """The table of contents of an archive."""

    members: list[str]  # regular files, in archive order
    refused: dict[str, list[str]]  # by reason, the members that are not read


@dataclass(frozen=True)
class _Archive:
    """An open archive; `read` maps (member name, byte limit) to the first bytes of that member."""

    listing: Listing
    read: Callable[[str, int], bytes]
    close: Callable[[], None]


@dataclass
class _Opened(threading.local):
    """Archives that this thread has open, least recently used first; threads cannot share a file position."""

    archives: OrderedDict[tuple[object, ...], _Archive] = field(default_factory=OrderedDict)


_opened = _Opened()


def is_archive(path: Path) -> bool:
    """Whether the file name ends in one of `ARCHIVE_ENDINGS`."""
    return path.name.lower().endswith(ARCHIVE_ENDINGS)


def find_archive(path: Path) -> Path | None:
    """Return the archive that contains a member's path; None if `path` is not inside an archive."""
    return next((parent for parent in path.parents if is_archive(parent) and is_file(parent)), None)


def list_archive(path: Path) -> Listing:
    """List an archive.

    Raises:
        UserError: the archive cannot be read, or unpacks to more than `MAX_EXPANSION_RATIO` times its size.
    """
    return _open_archive(path).listing


def read_member(archive: Path, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
    """Return the bytes of an archive's member, or the first `limit` of them.

    Raises:
        UserError: there is no such member, it is damaged, or the whole member is asked for and larger than `MAX_MEMBER_BYTES`.
    """
    opened = _open_archive(archive)
    try:
        content = opened.read(name, limit if limit < MAX_MEMBER_BYTES else MAX_MEMBER_BYTES + 1)
    except ARCHIVE_ERRORS as error:
        raise UserError(f"{archive}: its member {name!r} cannot be read ({error}).") from error
    if len(content) > MAX_MEMBER_BYTES:
        raise UserError(
            f"{archive}: its member {name!r} is larger than {MAX_MEMBER_BYTES // 2**20} MiB unpacked. Unpack it by hand."
        )
    return content


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Return the bytes of a file or of an archive's member (`archive.zip/name/inside.jpg`), or the first `limit` of them.

    Raises:
        OSError: the file cannot be read.
        UserError: the archive, its member or the object store cannot be read.
    """
    try:
        if isinstance(path, RemotePath):
            return path.read_bytes(limit)
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return file.read(size if limit is None else min(size, limit))
    except (NotADirectoryError, FileNotFoundError):
        archive = find_archive(path)
        if archive is None:
            raise
        return read_member(
            archive, path.relative_to(archive).as_posix(), MAX_MEMBER_BYTES if limit is None else limit
        )


def read_image_bytes(path: Path, limit: int | None = None) -> bytes:
    """Return the bytes of an image as `read_bytes` does.

    Raises:
        ImageError: It cannot be read, as where it has gone meanwhile.
    """
    try:
        return read_bytes(path, limit)
    except (OSError, UserError) as error:
        raise ImageError(path, f"cannot be read ({error})") from error


def _open_archive(path: Path) -> _Archive:
    try:
        state = path.stat()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error
    if not state.st_size:  # some files of the kernel's have no size and never end
        raise UserError(f"{path} cannot be read as an archive (it is empty).")
    key = os.fspath(path), state.st_size, state.st_mtime_ns, os.getpid()
    opened = _opened.archives
    if key not in opened:
        try:
            openers = ((ZIP_ENDINGS, _open_zip), (TABLE_ENDINGS, _open_table), ("", _open_tar))
            opened[key] = next(
                open_it for endings, open_it in openers if path.name.lower().endswith(endings)
            )(path)
        except ARCHIVE_ERRORS as error:
            raise UserError(f"{path} cannot be read as an archive ({error}).") from error
        while len(opened) > MAX_OPEN_ARCHIVES:
            opened.popitem(last=False)[1].close()
    opened.move_to_end(key)
    return opened[key]


def _open_zip(path: Path) -> _Archive:
    archive = zipfile.ZipFile(path.open("rb") if isinstance(path, RemotePath) else path)
    found = {info.filename: info for info in archive.infolist() if not info.filename.endswith("/")}
    listing = _list_members(found, lambda name: "encrypted" if found[name].flag_bits & 1 else None)

    def read(name: str, limit: int) -> bytes:
        with archive.open(found[name]) as member:
            return member.read(limit)

    return _Archive(listing, read, archive.close)


def _open_tar(path: Path) -> _Archive:
    held = ExitStack()
    members = dict[str, Member]()
    lost = list[str]()
    with held:
        stream = held.enter_context(open_tar(path))
        for found in walk_tar(stream):
            if isinstance(found, str):
                lost.append(found)
            else:
                members[found.name.removeprefix("./")] = found  # as `tar cf a.tar .` writes it
        held = held.pop_all()
    if lost and not members:
        held.close()
        raise tarfile.ReadError(lost[0])
    listing = _list_members(members, lambda name: None)
    listing.refused.update({"a damaged part of an archive": lost} if lost else {})

    def read(name: str, limit: int) -> bytes:
        content = read_in_tar(members[name], stream, limit)
        if len(content) < min(members[name].size, limit):
            raise tarfile.ReadError(CUT)
        return content

    return _Archive(listing, read, held.close)


def _open_table(path: Path) -> _Archive:
    names, read, close = open_pictures(path)
    return _Archive(Listing(names, {}), lambda name, limit: read(name)[:limit], close)


def _list_members(names: Iterable[str], reason: Callable[[str], str | None]) -> Listing:
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
