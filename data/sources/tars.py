"""The members of a tar, damaged or cut ones included: what is lost is said, and what follows is found again."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import UserError
from ..formats import IMAGE_ENDINGS, SIGNATURE_BYTES, detect_format

BLOCK = tarfile.BLOCKSIZE
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
READ_ERRORS = (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
MAX_EXPANSION_RATIO = 200  # unpacked bytes of a tar per byte of the file
MIN_SUSPECT_BYTES = 2**30  # unpacked; below this, no ratio is suspect
COPIED = 2**20  # bytes at once
CUT = "the tar is cut within it"


@dataclass(frozen=True)
class Member:
    """A file in a tar; places are bytes of the unpacked stream."""

    name: str
    header: int  # where its header begins
    data: int  # where its content begins
    size: int  # of its content
    stored: tuple[
        tuple[int, int], ...
    ] = ()  # of a sparse file: where each part of its content that is stored begins, and its size

    @property
    def end(self) -> int:
        """Where the next header is expected."""
        return self.data + -(-self.size // BLOCK) * BLOCK


class _Bounded(io.BufferedReader):
    """The unpacked stream of a compressed tar, which is not followed for longer than a tar of pictures can be."""

    def __init__(self, stream: Any, path: Path) -> None:
        super().__init__(stream)
        self.path, self.packed = path, path.stat().st_size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if offset > (most := max(MIN_SUSPECT_BYTES, MAX_EXPANSION_RATIO * self.packed)):
            sizes = f"from {self.packed / 2**20:.1f} MiB to more than {most / 2**30:.1f} GiB"
            raise UserError(f"{self.path} unpacks {sizes} and is refused as a bomb.")
        return super().seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.seek(self.tell())
        return content


def is_tar(name: str) -> bool:
    """Whether a file's name says that it is a tar."""
    return name.lower().endswith(TAR_ENDINGS)


@contextmanager
def open_tar(path: Path) -> Iterator[IO[bytes]]:
    """Open the unpacked stream of a tar.

    Raises:
        UserError: While it is read: it unpacks to more than `MAX_EXPANSION_RATIO` times its size.
    """
    with path.open("rb") as file:
        beginning = file.read(8)
        file.seek(0)
        opener = next((opener for magic, opener in OPENERS.items() if beginning.startswith(magic)), None)
        if opener is None:
            yield file
            return
        with opener(file) as stream, _Bounded(stream, path) as bounded:
            yield bounded


def walk_tar(stream: IO[bytes]) -> Iterator[Member | str]:
    """Yield the regular files of a tar, and in words what is damaged between and after them.

    After a damaged header, the next one that fits its checksum is looked for; after a damaged compressed stream there is none.
    """
    expected, archive = 0, None
    while True:
        try:
            if archive is None:
                stream.seek(expected)
                archive = tarfile.open(  # noqa: SIM115
                    fileobj=stream, mode="r:", ignore_zeros=True, errors="surrogateescape"
                )
            found = archive.next()
        except tarfile.ReadError as error:
            start = archive.offset if archive is not None else expected
            if str(error) in ("unexpected end of data", "empty file") or not stream.seekable():
                yield f"it is cut within the member before byte {expected:,}" if expected else str(error)
                return
            expected, archive = start + BLOCK, None  # a damaged extended header: go on behind it
            yield f"a damaged header at byte {start:,}"
            continue
        except READ_ERRORS as error:
            yield f"nothing can be read from byte {expected:,} on ({error})"
            return
        if found is None:
            if _holds_something(stream, expected, None):
                yield f"from byte {expected:,} on there is no member"
            return
        vars(archive)["members"].clear()  # it would keep all of them
        if found.offset > expected and _holds_something(stream, expected, found.offset):
            yield f"bytes {expected:,} to {found.offset:,} are damaged: the members there are lost"
        member = Member(found.name, found.offset, found.offset_data, found.size if found.isreg() else 0)
        expected = member.end
        if found.isreg():
            yield member


def is_picture(member: Member, stream: IO[bytes]) -> bool:
    """Whether a member is a picture, by its name's ending or its first bytes; hidden files are none."""
    name = PurePosixPath(member.name)
    if name.name.startswith(".") or not member.size:
        return False
    return (
        name.suffix.lower() in IMAGE_ENDINGS
        or detect_format(read_member(member, stream, SIGNATURE_BYTES)) is not None
    )


def read_member(member: Member, stream: IO[bytes], limit: int | None = None) -> bytes:
    """Return a member's content, or its first bytes; fewer of a tar that is cut."""
    stream.seek(member.data)
    return stream.read(member.size if limit is None else min(limit, member.size))


def read_picture(member: Member, stream: IO[bytes]) -> tuple[bytes | None, str]:
    """Return a member's whole content, or why it cannot be read."""
    try:
        content = read_member(member, stream)
    except READ_ERRORS as error:
        return None, f"cannot be read ({error})"
    return (content, "") if len(content) == member.size else (None, CUT)


def sample_of(name: str) -> str:
    """Return what the files of one WebDataset sample share: the path up to the first dot of the file's name."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


def copy_tar(source: Path, places: set[int], target: Path) -> None:
    """Copy a tar's unpacked bytes without the pictures at these places, and without samples of which no picture is left."""
    with open_tar(source) as stream:
        members = [member for member in walk_tar(stream) if isinstance(member, Member)]
        pictures = {member.data for member in members if is_picture(member, stream)}
        touched = {sample_of(member.name) for member in members if member.data in places}
        touched -= {sample_of(member.name) for member in members if member.data in pictures - places}
        with target.open("wb") as output:
            start = 0
            for member in members:
                if member.data in places or (
                    sample_of(member.name) in touched and member.data not in pictures
                ):
                    _copy(stream, start, member.header, output)
                    start = member.end
            _copy(stream, start, None, output)


def _copy(stream: IO[bytes], start: int, end: int | None, output: IO[bytes]) -> None:
    stream.seek(start)
    while content := stream.read(COPIED if end is None else min(COPIED, end - start)):
        output.write(content)
        start += len(content)


def _holds_something(stream: IO[bytes], start: int, end: int | None) -> bool:
    """Whether any byte of a range is not 0; False for one that begins behind the end."""
    try:
        stream.seek(start)
        while content := stream.read(2**20 if end is None else min(2**20, end - start)):
            if content.count(0) < len(content):
                return True
            start += len(content)
    except READ_ERRORS:
        return True
    return False
