"""Millions of pictures, one after the other: batches of files, tars and Parquet files."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..decode import MAX_FILE_BYTES
from ..errors import ImageError, StorageError, UserError
from ..remote import ObjectState, RemotePath, as_path, is_remote, map_files
from .archives import read_bytes
from .tables import import_pyarrow, is_parquet, open_table
from .tars import READ_ERRORS, Member, is_picture, is_tar, open_tar, read_picture, walk_tar

FILES = "files"
TAR = "tar"
TABLE = "parquet"
ROWS_AT_ONCE = 64  # of a table
Content = tuple[bytes | None, str]  # the bytes of a picture; None where they cannot be read, and why not


@dataclass(frozen=True)
class Picture:
    """A picture as it was found."""

    id: str  # path of a file, name of a tar's member, or row of a table
    place: int  # where a tar's member begins; the row of a table; 0 of a file
    content: bytes | None  # None where it cannot be read,
    error: str  # and why not


@dataclass(frozen=True)
class Container:
    """A batch of files, a tar or a Parquet file.

    Attributes:
        kind: What it is.
        source: Its path; of a batch of files the path that was named.
        state: Digest of the sizes and times of modification.
        column: Of a table, in which the pictures are.
        names: Of a batch, the paths of its files.
        sizes: Of a batch, the sizes of its files, or of the archives that they are in.
    """

    kind: str
    source: str
    state: str = ""
    column: str = ""
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Its name in a folder of results: what it is, whatever state it is in."""
        said = json.dumps([self.kind, self.source, self.names]).encode()
        return hashlib.sha256(said).hexdigest()[:20]

    def read(self) -> Iterator[Picture | str]:
        """Yield the pictures, and in words what is damaged."""
        return {FILES: _read_files, TAR: _read_members, TABLE: _read_rows}[self.kind](self)


def kind_of(source: str) -> str:
    """Return what a path names: a tar, a Parquet file, or another one, which may be a picture."""
    return TAR if is_tar(source) else TABLE if is_parquet(source) else FILES


def name_picture(source: str, picture: str) -> str:
    """Return one name for a picture: its path, or that of a tar with the member's name, or that of a table with the row."""
    return (
        {FILES: picture, TAR: f"{source}/{picture}", TABLE: f"{source}#{picture}"}[kind_of(source)]
        if picture
        else source
    )


def is_loose(source: str, picture: str) -> bool:
    """Whether a picture is a file on a disk, or in an archive there that is not filtered, and no row or member of a tar."""
    return kind_of(source) == FILES and not is_remote(picture)


def read_or_say(path: Path) -> Content:
    """Return the bytes of a file, or why they cannot be read.

    Raises:
        StorageError: The object store that holds the file cannot be used.
    """
    try:
        return read_bytes(path, MAX_FILE_BYTES + 1), ""
    except StorageError:
        raise
    except (OSError, UserError) as error:
        return None, f"cannot be read ({getattr(error, 'strerror', None) or error})"


class Rereader:
    """Reads pictures again, each given by its `id`, `source`, `place` and `bytes`.

    The source of the last one stays open, and of a table its group of rows: if they come in the order in which they were found, a
    compressed tar is unpacked once, and a group of rows read once.
    """

    def __init__(self, column: str) -> None:
        self._column, self._opened = column, ExitStack()
        self._source, self._group = "", -1
        self._file: Any = None
        self._cells: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        """Close the source that is open, if there is one."""
        self._opened.close()
        self._source = ""

    def read(self, about: Mapping[str, Any]) -> bytes:
        """Return the bytes of a picture.

        Raises:
            ImageError: They cannot be read.
        """
        name = about["id"]
        source = about["source"]
        place = about["place"]
        try:
            if (kind := kind_of(source)) == FILES:
                content, problem = read_or_say(as_path(name))
            else:
                if source != self._source:
                    self._close()
                    self._file = self._opened.enter_context(
                        (open_tar if kind == TAR else open_table)(as_path(source))
                    )
                    self._source, self._group = source, -1
                content, problem = (
                    read_picture(Member(name, place, place, about["bytes"]), self._file)
                    if kind == TAR
                    else self._read_row(as_path(source), place)
                )
        except StorageError:
            raise
        except (*READ_ERRORS, UserError) as error:
            content, problem = None, f"cannot be read ({error})"
        if content is None:
            raise ImageError(name_picture(source, name), problem)
        return content

    def unpack(self, about: Mapping[str, Any], folder: Path) -> Path:
        """Return a file with the bytes of a picture: its own, or a member of an archive, or else a new one in a new folder.

        Raises:
            ImageError: They cannot be read.
        """
        content, path = self.read(about), Path(about["id"])
        if is_loose(about["source"], about["id"]):
            return path
        folder.mkdir()
        path = folder / path.name
        path.write_bytes(content)
        return path

    def _read_row(self, path: Path, row: int) -> Content:
        for group, rows in enumerate(_count_rows(self._file)):
            if row < rows:
                if group != self._group:
                    self._cells, self._group = (
                        self._file.read_row_group(group, [self._column]).column(0),
                        group,
                    )
                return _open_cell(self._cells[row].as_py(), path)
            row -= rows
        return None, "the table has fewer rows"


def _read_files(files: Container) -> Iterator[Picture | str]:
    paths = list[Path]()
    for name, size in zip(files.names, files.sizes, strict=True):
        path = as_path(name)
        paths.append(path.with_state(ObjectState(size, 0)) if isinstance(path, RemotePath) else path)
    return (
        Picture(name, 0, *content)
        for name, content in zip(files.names, map_files(read_or_say, paths), strict=True)
    )


def _read_members(tar: Container) -> Iterator[Picture | str]:
    try:
        with open_tar(as_path(tar.source)) as stream:
            for found in walk_tar(stream):
                if isinstance(found, str):
                    yield found
                elif is_picture(found, stream):
                    yield Picture(found.name, found.data, *read_picture(found, stream))
    except StorageError:
        raise
    except (*READ_ERRORS, UserError) as error:
        yield f"cannot be read ({error})"


def _read_rows(table: Container) -> Iterator[Picture | str]:
    errors = OSError, import_pyarrow()[0].ArrowException
    row = 0
    try:
        with open_table(as_path(table.source)) as file:
            names = file.schema_arrow.names
            if table.column not in names:
                yield f"has no column {table.column} (--column names it), but {', '.join(names)}"
                return
            for group, rows in enumerate(_count_rows(file)):
                end = row + rows
                try:
                    for batch in file.iter_batches(ROWS_AT_ONCE, [group], [table.column]):
                        for cell in batch.column(0).to_pylist():
                            yield Picture(str(row), row, *_open_cell(cell, as_path(table.source)))
                            row += 1
                except errors as error:
                    problem = f"its row group cannot be read ({str(error).splitlines()[0]})"
                    yield from (Picture(str(lost), lost, None, problem) for lost in range(row, end))
                    row = end
    except errors as error:
        yield f"cannot be read ({str(error).splitlines()[0]})"


def _count_rows(file: Any) -> list[int]:
    """Return the number of rows of each group of a Parquet file."""
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def _open_cell(cell: Any, table: Path) -> Content:
    """Return the picture of a cell, which holds bytes, a path, or both as {bytes, path}, or why there is none."""
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, str):
        named = as_path(cell)
        return read_or_say(named if is_remote(named) else table.parent / named)
    return (
        (cell, "")
        if isinstance(cell, bytes) and cell
        else (None, "the cell is empty or holds no bytes and no path")
    )
