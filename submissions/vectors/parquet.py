"""Vectors in Parquet, a row for each image: `id`, and `vector`, null where it cannot be decoded.

Foreign files may have lists of floats of one length, whatever their precision. Needs pyarrow.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from image_copies.data.arrays import Bools, Float32s
from image_copies.data.errors import UserError
from image_copies.data.remote import as_path
from image_copies.data.sources.tables import import_pyarrow, open_table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NEEDED = ["id", "vector"]
REMEDY = "Write it with columns id (text) and vector (lists of floats, all of one length)."


def write_parquet(path: Path, ids: Sequence[str], blocks: Iterable[Float32s], half: bool) -> int:
    """Write blocks [m, d] of vectors; return the number of rows.

    Rows of zeros, which stand for images that cannot be decoded, become null.
    """
    pa, pq = import_pyarrow()
    row, writer = 0, None
    try:
        for block in blocks:
            kind = pa.list_(pa.float16() if half else pa.float32(), block.shape[1])
            schema = pa.schema([("id", pa.string()), ("vector", kind)])
            writer = writer or pq.ParquetWriter(path, schema)
            part = slice(row, row + len(block))
            flat = pa.array(block.astype(np.float16 if half else np.float32, copy=False).ravel())
            vectors = pa.FixedSizeListArray.from_arrays(
                flat, block.shape[1], mask=pa.array(~block.any(axis=1))
            )
            writer.write_table(
                pa.Table.from_arrays([pa.array(ids[part], pa.string()), vectors], schema=schema)
            )
            row += len(block)
    finally:
        if writer is not None:
            writer.close()
    return row


def describe_parquet(path: Path) -> tuple[list[str], int, Bools]:
    """Return the ids [n], the dimensions, and which images could not be decoded, bool [n].

    Raises:
        UserError: the file is damaged or has other columns, an id is missing, or the vectors have several lengths.
    """
    ids: list[str] = []
    absent: list[Bools] = []
    with _open(path) as (file, dimensions):
        for batch in file.iter_batches(columns=NEEDED):
            if batch["id"].null_count:
                raise UserError(
                    f"{path}: row {len(ids) + batch['id'].to_pylist().index(None)} has no id. {REMEDY}"
                )
            ids += map(str, batch["id"].to_pylist())
            absent.append(np.asarray(batch["vector"].is_null()))
            for length in batch["vector"].drop_null().value_lengths().unique().to_pylist():
                if length != dimensions:
                    raise UserError(
                        f"{path} holds vectors of {dimensions} and of {length} dimensions. {REMEDY}"
                    )
    return ids, dimensions, np.concatenate(absent)


def iterate_parquet(
    path: Path, block: int, first: int, last: int | None
) -> Iterator[tuple[Float32s, Bools]]:
    """Yield rows [m, d] from `first` up to the one before `last`, in blocks of `block`, and which have no vector, bool [m].

    Raises:
        UserError: the file is damaged or has other columns.
    """
    with _open(path) as (file, dimensions):
        held = np.empty((0, dimensions), np.float32)
        flags = np.empty(0, bool)
        for vectors in _iterate_rows(file, first, file.metadata.num_rows if last is None else last):
            absent = np.asarray(vectors.is_null())
            rows = np.zeros((len(absent), dimensions), np.float32)
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, which is refused
                rows[~absent] = np.asarray(vectors.drop_null().flatten(), np.float32).reshape(
                    -1, dimensions
                )
            held, flags = np.concatenate([held, rows]), np.concatenate([flags, absent])
            while len(held) >= block:
                yield held[:block], flags[:block]
                held, flags = held[block:], flags[block:]
        if len(held):
            yield held, flags


def _iterate_rows(file: "pq.ParquetFile", first: int, last: int) -> "Iterator[pa.Array]":
    """Yield the vectors from row `first` on, up to the one before `last`; groups of rows that hold none of them are not read."""
    start = 0
    for number in range(file.num_row_groups):
        after = start + file.metadata.row_group(number).num_rows
        if start < last and after > first:
            for batch in file.iter_batches(row_groups=[number], columns=["vector"]):
                skipped = max(first - start, 0)
                yield batch["vector"].slice(skipped, max(0, min(last - start, len(batch)) - skipped))
                start += len(batch)
        start = after


@contextmanager
def _open(path: Path) -> "Iterator[tuple[pq.ParquetFile, int]]":
    """Open a file for reading; yield it with the dimensions of its vectors."""
    pa, _ = import_pyarrow()
    try:
        with open_table(as_path(path)) as file:
            fields = {field.name: field.type for field in file.schema_arrow}
            is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
            if not set(NEEDED) <= fields.keys() or not (
                any(test(fields["vector"]) for test in is_list)
                and pa.types.is_floating(fields["vector"].value_type)
            ):
                found = ", ".join(f"{name} ({kind})" for name, kind in fields.items())
                raise UserError(f"{path} has the columns {found}; expected id and vector. {REMEDY}")
            yield file, _find_dimensions(file)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file. Check the path, or run the step that writes it.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is not a complete Parquet file ({error}). Write it again.") from error


def _find_dimensions(file: "pq.ParquetFile") -> int:
    """Return the length of the first vector.

    Raises:
        ValueError: there is none.
    """
    for batch in file.iter_batches(batch_size=1024, columns=["vector"]):
        for vector in batch["vector"].drop_null()[:1]:
            return len(vector)
    raise ValueError("it holds no vector")
