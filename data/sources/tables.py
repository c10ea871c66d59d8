"""Pictures in the rows of Parquet and Arrow files, as Hugging Face's datasets store them, read one by one.

Their column is binary, or a struct with `bytes` and `path`. A picture is named by its row's number, with the ending of its path.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from .. import commands, formats, remote
from ..errors import UserError

PARQUET_ENDINGS = (".parquet", ".pq")
TABLE_ENDINGS = (*PARQUET_ENDINGS, ".arrow")
FILE_MAGIC = b"ARROW1"  # of Arrow's file format; datasets writes the streaming one
MAX_GROUP_BYTES = 2**30  # of a group of rows, which is read whole; datasets writes 100 pictures into one


@dataclass(frozen=True)
class _Groups:
    """A table's column of pictures, in groups of consecutive rows."""

    sizes: Sequence[int]  # rows of each group
    paths: Sequence[str | None]  # of all rows
    load: Callable[[int], Any]  # the cells of a group
    close: Callable[[], None]


def is_parquet(path: Path | str) -> bool:
    """Whether a file's name says that it is Parquet."""
    return str(path).lower().endswith(PARQUET_ENDINGS)


def import_pyarrow(needed: str = "Parquet needs") -> tuple[Any, Any]:
    """Return the modules pyarrow, which is an extra, and pyarrow.parquet.

    Raises:
        UserError: It is not installed; the message says what needs it.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(
            f"{needed} pyarrow. Install it with: {commands.name_install('interchange')}"
        ) from error
    return pyarrow, pyarrow.parquet


@contextmanager
def open_table(path: Path) -> Iterator[Any]:
    """Open a Parquet file on a disk or an object store, as a `pyarrow.parquet.ParquetFile`."""
    _, parquet = import_pyarrow()
    with path.open("rb") as content, parquet.ParquetFile(content) as file:
        yield file


def copy_table(source: Path, gone: set[int], target: Path) -> None:
    """Copy the groups of rows of a Parquet file without some rows."""
    import numpy as np

    row = 0
    with (
        open_table(source) as table,
        import_pyarrow()[1].ParquetWriter(target, table.schema_arrow) as output,
    ):
        for group in range(table.num_row_groups):
            rows = table.read_row_group(group)
            kept = [place for place in range(len(rows)) if row + place not in gone]
            output.write_table(rows.take(np.array(kept, np.int64)))
            row += len(rows)


def open_pictures(path: Path) -> tuple[list[str], Callable[[str], bytes], Callable[[], None]]:
    """Return the names of a table's pictures, what reads one of them by its name, and what closes the file.

    Raises:
        UserError: pyarrow is not installed, no column holds pictures, or too many bytes are in one group of rows.
    """
    import_pyarrow(f"{path} needs")
    groups = _open_parquet(path) if is_parquet(path) else _open_arrow(path)
    starts = [0, *accumulate(groups.sizes)]
    digits = len(str(starts[-1]))
    names = [f"{row:0{digits}}{_find_ending(groups.paths[row])}" for row in range(starts[-1])]
    rows = {name: row for row, name in enumerate(names)}
    held: dict[int, Any] = {}  # the group that was read last

    def read(name: str) -> bytes:
        row = rows[name]
        number = bisect_right(starts, row) - 1
        if number not in held:
            held.clear()
            held[number] = groups.load(number)
        cell = held[number][row - starts[number]].as_py()
        content = cell.get("bytes") if isinstance(cell, dict) else cell
        if content is None:
            raise ValueError("the row has no bytes of a picture")
        return bytes(content)

    return names, read, groups.close


def _open_parquet(path: Path) -> _Groups:
    file = import_pyarrow()[1].ParquetFile(path.open("rb"))
    column, has_paths = _find_column(path, file.schema_arrow)
    about = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    if any(group.total_byte_size > MAX_GROUP_BYTES for group in about):
        raise UserError(
            f"{path} has more than {MAX_GROUP_BYTES // 2**30} GiB in a group of rows. Write it with row_group_size=100."
        )
    sizes = [group.num_rows for group in about]
    paths = (
        _list_paths(file.read(columns=[f"{column}.path"]).column(0)) if has_paths else [None] * sum(sizes)
    )
    return _Groups(
        sizes,
        paths,
        lambda number: file.read_row_group(number, columns=[column]).column(0),
        lambda: file.close(force=True),
    )


def _open_arrow(path: Path) -> _Groups:
    import pyarrow as pa

    source = path.open("rb") if isinstance(path, remote.RemotePath) else pa.memory_map(str(path))
    is_stream = source.read(len(FILE_MAGIC)) != FILE_MAGIC
    source.seek(0)
    with pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source) as reader:
        table = reader.read_all()
    column, has_paths = _find_column(path, table.schema)
    cells = table.column(column)
    cells.validate(full=True)  # offsets of a damaged file would lead anywhere
    return _Groups(
        [len(chunk) for chunk in cells.chunks],
        _list_paths(cells) if has_paths else [None] * len(cells),
        cells.chunk,
        source.close,
    )


def _find_column(path: Path, schema: Any) -> tuple[str, bool]:
    """Return the first column of pictures, and whether it has paths.

    Raises:
        UserError: there is none.
    """
    import pyarrow as pa

    for field in schema:
        parts = (
            {part.name: part.type for part in field.type}
            if pa.types.is_struct(field.type)
            else {"bytes": field.type}
        )
        if "bytes" in parts and (
            pa.types.is_binary(parts["bytes"]) or pa.types.is_large_binary(parts["bytes"])
        ):
            return field.name, "path" in parts
    found = ", ".join(f"{field.name} ({field.type})" for field in schema)
    raise UserError(
        f"{path} has the columns {found}; expected one of pictures: binary, or a struct with bytes and path."
    )


def _list_paths(cells: Any) -> list[str | None]:
    import pyarrow.compute as pc

    paths: list[str | None] = pc.struct_field(cells, "path").to_pylist()
    return paths


def _find_ending(path: str | None) -> str:
    """Return the ending of a picture's path; "" for one without, whose format is then found by its content."""
    ending = PurePosixPath(path or "").suffix.lower()
    return ending if ending in formats.IMAGE_ENDINGS else ""
