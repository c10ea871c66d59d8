"""Ground truth of queries, and the CSV tables that people give: columns that must be there, ids as text."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from .errors import UserError
from .files import whole_file


def read_table(path: Path, columns: Sequence[str], expected: str) -> list[list[str]]:
    """Read the rows of a CSV file with exactly these columns, in order, as text; what a row lacks at its end is "".

    If the file is missing, the message says what is `expected`, such as "a CSV with one row for each image".

    Raises:
        UserError: the file is missing, is not a CSV file, or has other columns or rows with too many values.
    """
    names = ",".join(columns)
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give {expected}.")
    try:
        text = io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")
        lines = [line for line in csv.reader(text, strict=True) if line]
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a CSV file that can be read: {error}") from error
    head = lines[0] if lines else []
    if head != list(columns):
        raise UserError(f"{path} has the columns {','.join(head)}; expected {names}.")
    rows = lines[1:]
    if any(len(row) > len(columns) for row in rows):
        raise UserError(
            f"{path} has lines with more values than the columns {names}: remove what follows them."
        )
    return [row + [""] * (len(columns) - len(row)) for row in rows]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file whole; bytes of file names that are not UTF-8 are kept.

    Raises:
        UserError: the disk is full.
    """
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        # with this terminator a carriage return in a name is quoted, by Python 3.12.1, too; lines end without it
        writer = csv.writer(
            SimpleNamespace(write=lambda line: file.write(f"{line[:-2]}\n")), lineterminator="\r\n"
        )
        writer.writerow(columns)
        writer.writerows(rows)


GROUND_TRUTH_COLUMNS = ["query_id", "reference_id"]


@dataclass(frozen=True)
class GroundTruth:
    """The true copies."""

    query_ids: list[str]  # ids of all queries to be scored, without duplicates, in file order
    pairs: frozenset[tuple[str, str]]  # the true (query id, reference id) pairs


def read_ground_truth(path: Path) -> GroundTruth:
    """Read a CSV of `query_id,reference_id`; an empty reference id means that the query is a copy of nothing.

    Raises:
        UserError: the file is missing, is not a CSV with these columns, has no rows, or has an empty query id.
    """
    rows = read_table(
        path, GROUND_TRUTH_COLUMNS, f"a ground truth CSV with the columns {','.join(GROUND_TRUTH_COLUMNS)}"
    )
    for number, (query_id, _) in enumerate(rows, 2):
        if not query_id:
            raise UserError(
                f"{path}, line {number}: the query id is empty. Every row needs one; only reference_id may be empty."
            )
    if not rows:
        raise UserError(f"{path} contains no rows; expected one for each query.")
    query_ids = list(dict.fromkeys(query for query, _ in rows))
    return GroundTruth(query_ids, frozenset((query, reference) for query, reference in rows if reference))


def write_ground_truth(path: Path, rows: Iterable[tuple[str, str | None]]) -> None:
    """Write rows of (query id, reference id); the reference id is None for a query that is a copy of nothing."""
    write_table(path, GROUND_TRUTH_COLUMNS, [(query, reference or "") for query, reference in rows])
