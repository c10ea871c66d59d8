"""The pictures of a part, each with its bytes or with why it has none; and single pictures, read again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from image_copies.data.archives import read_bytes
from image_copies.data.decode import MAX_FILE_BYTES
from image_copies.data.errors import ImageError, StorageError, UserError
from image_copies.data.remote import ObjectState, RemotePath, as_path, is_remote, map_files
from image_copies.pipeline.dedup.collection import open_table
from image_copies.pipeline.dedup.inputs import Index, Part
from image_copies.pipeline.dedup.tars import READ_ERRORS, Member, is_picture, is_tar, open_tar, read_member, walk_tar
from image_copies.submissions.vectors.parquet import is_parquet


@dataclass(frozen=True)
class Picture:
    """A picture as it was found.

    Attributes:
        id: Path of a file, name of a tar's member, or row in a Parquet file.
        place: Where a tar's member begins; the row of a table; 0 of a file.
        content: Its bytes; None where they cannot be read.
        error: Why not; empty where they can.
    """

    id: str
    place: int
    content: bytes | None
    error: str = ""


def read_part(index: Index, part: Part) -> Iterator[Picture]:
    """Yield the pictures of a part, as many as the index counted, or a shortage that the caller finds."""
    return {"files": _read_files, "tar": _read_members, "parquet": _read_rows}[index.kind](index, part)


def read_again(about: Mapping[str, Any], column: str) -> bytes:
    """Return the bytes of one picture, given by `id`, `source`, `place` and `bytes` of its row of vectors.

    Raises:
        ImageError: They cannot be read.
    """
    name, source, place = about["id"], about["source"], about["place"]
    try:
        if is_tar(source):
            with open_tar(as_path(source)) as stream:
                return read_member(Member(name, place, place, about["bytes"]), stream)
        if not is_parquet(source):
            return read_bytes(as_path(name), MAX_FILE_BYTES + 1)
        with open_table(as_path(source)) as file:
            group = 0
            while place >= (rows := file.metadata.row_group(group).num_rows):
                group, place = group + 1, place - rows
            cell = file.read_row_group(group, [column]).column(0)[place].as_py()
        content, problem = _open_cell(cell, as_path(source))
    except StorageError:
        raise
    except (*READ_ERRORS, UserError) as error:
        raise ImageError(name_picture(source, name), f"cannot be read ({error})") from error
    if content is None:
        raise ImageError(name_picture(source, name), problem)
    return content


def name_picture(source: str, picture: str) -> str:
    """Return one name for a picture: its path, or that of a tar with the member's name, or that of a table with the row."""
    if not picture:
        return source
    return f"{source}/{picture}" if is_tar(source) else f"{source}#{picture}" if is_parquet(source) else picture


def is_loose(source: str, picture: str) -> bool:
    """Whether a picture is a file on a disk, or in an archive there that is not filtered, and no row or member of a tar."""
    return not (is_tar(source) or is_parquet(source) or is_remote(picture))


def _read_files(index: Index, part: Part) -> Iterator[Picture]:
    names, paths = index.names[part.first : part.end], list[Path]()
    for name, size in zip(names, index.sizes[part.first : part.end], strict=True):
        path = as_path(name)
        paths.append(path.with_state(ObjectState(size, 0)) if isinstance(path, RemotePath) else path)
    for name, (content, error) in zip(names, map_files(_read_file, paths), strict=True):
        yield Picture(name, 0, content, error)


def _read_file(path: Path) -> tuple[bytes | None, str]:
    try:
        return read_bytes(path, MAX_FILE_BYTES + 1), ""
    except StorageError:
        raise
    except (OSError, UserError) as error:
        return None, f"cannot be read ({getattr(error, 'strerror', None) or error})"


def _read_members(index: Index, part: Part) -> Iterator[Picture]:
    with open_tar(as_path(index.source)) as stream:
        members = (found for found in walk_tar(stream, part.first) if isinstance(found, Member) and is_picture(found, stream))
        for member in islice(members, part.count):
            try:
                content = read_member(member, stream)
            except READ_ERRORS as error:
                yield Picture(member.name, member.data, None, f"cannot be read ({error})")
                continue
            cut = len(content) < member.size
            yield Picture(member.name, member.data, None if cut else content, "the tar is cut within it" if cut else "")


def _read_rows(index: Index, part: Part) -> Iterator[Picture]:
    from pyarrow import ArrowException  # imported here: an extra

    with open_table(as_path(index.source)) as file:
        row = sum(file.metadata.row_group(group).num_rows for group in range(part.first))
        for group in range(part.first, part.end):
            count = file.metadata.row_group(group).num_rows
            try:
                for batch in file.iter_batches(64, [group], [index.column]):
                    for cell in batch.column(0).to_pylist():
                        yield Picture(str(row), row, *_open_cell(cell, as_path(index.source)))
                        row, count = row + 1, count - 1
            except (OSError, ArrowException) as error:
                for lost in range(row, row + count):
                    yield Picture(str(lost), lost, None, f"its row group cannot be read ({str(error).splitlines()[0]})")
                row += count


def _open_cell(cell: Any, table: Path) -> tuple[bytes | None, str]:
    """Return the picture of a cell, which holds bytes, a path, or both as {bytes, path}, or why there is none."""
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, str):
        named = as_path(cell)
        return _read_file(named if is_remote(named) else table.parent / named)
    return (cell, "") if isinstance(cell, bytes) and cell else (None, "the cell is empty or holds no bytes and no path")
