"""Ground truth of queries, and the CSV tables that people give: columns that must be there, ids as text."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.remote import as_path, is_remote

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: Path, columns: Sequence[str], expected: str) -> "pd.DataFrame":
    """Read a CSV file with exactly these columns, in order; all values are strings, empty cells "".

    If the file is missing, the message says what is `expected`, such as "a CSV with one row for each image".

    Raises:
        UserError: the file is missing, is not a CSV file, or has other columns or rows with too many values.
    """
    import pandas as pd  # imported here: what only writes tables must start at once

    names = ",".join(columns)
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give {expected}.")
    try:
        table = pd.read_csv(io.BytesIO(path.read_bytes()) if is_remote(path) else path, dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(f"{path} is not a CSV file that can be read: {error}") from error
    if list(table.columns) != list(columns):
        raise UserError(f"{path} has the columns {','.join(map(str, table.columns))}; expected {names}.")
    if not isinstance(table.index, pd.RangeIndex):  # pandas turns a surplus column into row labels
        raise UserError(f"{path} has lines with more values than the columns {names}: remove what follows them.")
    return table


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file whole; bytes of file names that are not UTF-8 are kept.

    Raises:
        UserError: the disk is full.
    """
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        # with this terminator a carriage return in a name is quoted, by Python 3.12.1, too; lines end without it
        writer = csv.writer(SimpleNamespace(write=lambda line: file.write(f"{line[:-2]}\n")), lineterminator="\r\n")
        writer.writerow(columns)
        writer.writerows(rows)


GROUND_TRUTH_COLUMNS = ["query_id", "reference_id"]


@dataclass(frozen=True)
class GroundTruth:
    """The true copies."""

    query_ids: list[str]  # ids of all queries to be scored, without duplicates, in file order
    pairs: frozenset[tuple[str, str]]  # the true (query id, reference id) pairs


def read_ground_truth(path: Path | str) -> GroundTruth:
    """Read a CSV of `query_id,reference_id`; an empty reference id means that the query is a copy of nothing.

    Raises:
        UserError: the file is missing, is not a CSV with these columns, has no rows, or has an empty query id.
    """
    path = as_path(path)
    table = read_table(path, GROUND_TRUTH_COLUMNS, f"a ground truth CSV with the columns {','.join(GROUND_TRUTH_COLUMNS)}")
    if (table["query_id"] == "").any():
        row = int((table["query_id"] == "").to_numpy().argmax())
        raise UserError(f"{path}, line {row + 2}: the query id is empty. Every row needs one; only reference_id may be empty.")
    if table.empty:
        raise UserError(f"{path} contains no rows; expected one for each query.")
    query_ids = list(dict.fromkeys(table["query_id"]))
    pairs = frozenset((q, r) for q, r in zip(table["query_id"], table["reference_id"], strict=True) if r)
    return GroundTruth(query_ids, pairs)


def write_ground_truth(path: Path | str, rows: Iterable[tuple[str, str | None]]) -> None:
    """Write rows of (query id, reference id); the reference id is None for a query that is a copy of nothing."""
    write_table(as_path(path), GROUND_TRUTH_COLUMNS, ((query, reference or "") for query, reference in rows))
