"""The members of a tar, damaged or cut ones included: what is lost is said, and what follows is found again."""

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from image_copies.data.formats import IMAGE_ENDINGS, SIGNATURE_BYTES, detect_format

BLOCK = tarfile.BLOCKSIZE
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
READ_ERRORS = (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class Member:
    """A file in a tar; places are bytes of the unpacked stream."""

    name: str
    header: int  # where its header begins
    data: int  # where its content begins
    size: int  # of its content

    @property
    def end(self) -> int:
        """Where the next header is expected."""
        return self.data + -(-self.size // BLOCK) * BLOCK


@dataclass(frozen=True)
class Damage:
    """A range of bytes that holds something, but no member that could be found."""

    start: int
    reason: str


def is_tar(name: str) -> bool:
    """Whether a file's name says that it is a tar."""
    return name.lower().endswith(TAR_ENDINGS)


@contextmanager
def open_tar(path: Path) -> Iterator[IO[bytes]]:
    """Open the unpacked stream of a tar."""
    with path.open("rb") as file:
        beginning = file.read(8)
        file.seek(0)
        opener = next((opener for magic, opener in OPENERS.items() if beginning.startswith(magic)), nullcontext)
        with opener(file) as stream:
            yield stream


def walk_tar(stream: IO[bytes], first: int = 0) -> Iterator[Member | Damage]:
    """Yield the regular files of a tar from a header's place on, and what is damaged between and after them.

    After a damaged header, the next one that fits its checksum is looked for; after a damaged compressed stream there is none.
    """
    expected, archive = first, None
    while True:
        try:
            if archive is None:
                stream.seek(expected)
                archive = tarfile.open(fileobj=stream, mode="r:", ignore_zeros=True, errors="surrogateescape")  # noqa: SIM115
            found = archive.next()
        except tarfile.ReadError as error:
            start = archive.offset if archive is not None else expected
            if str(error) in ("unexpected end of data", "empty file") or not stream.seekable():
                yield Damage(
                    expected, f"it is cut within the member before byte {expected:,}" if expected > first else str(error)
                )
                return
            expected, archive = start + BLOCK, None  # a damaged extended header: go on behind it
            yield Damage(start, f"a damaged header at byte {start:,}")
            continue
        except READ_ERRORS as error:
            yield Damage(expected, f"nothing can be read from byte {expected:,} on ({error})")
            return
        if found is None:
            if _holds_something(stream, expected, None):
                yield Damage(expected, f"from byte {expected:,} on there is no member")
            return
        vars(archive)["members"].clear()  # it would keep all of them
        if found.offset > expected and _holds_something(stream, expected, found.offset):
            yield Damage(expected, f"bytes {expected:,} to {found.offset:,} are damaged: the members there are lost")
        member = Member(found.name, found.offset, found.offset_data, found.size if found.isreg() else 0)
        expected = member.end
        if found.isreg():
            yield member


def is_picture(member: Member, stream: IO[bytes]) -> bool:
    """Whether a member is a picture, by its name's ending or its first bytes; hidden files are none."""
    name = PurePosixPath(member.name)
    if name.name.startswith(".") or not member.size:
        return False
    return name.suffix.lower() in IMAGE_ENDINGS or detect_format(read_member(member, stream, SIGNATURE_BYTES)) is not None


def read_member(member: Member, stream: IO[bytes], limit: int | None = None) -> bytes:
    """Return a member's content, or its first bytes; fewer of a tar that is cut."""
    stream.seek(member.data)
    return stream.read(member.size if limit is None else min(limit, member.size))


def sample_of(name: str) -> str:
    """Return what the files of one WebDataset sample share: the path up to the first dot of the file's name."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


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
