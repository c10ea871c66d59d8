"""Which query copies which reference: the challenge's CSV."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.errors import UserError
from data.files import whole_file
from data.tables import read_table

COLUMNS = ["query_id", "reference_id"]


@dataclass(frozen=True)
class GroundTruth:
    """The true copies.

    Attributes:
        query_ids: all queries that count, in the order of the file, each once.
        pairs: the true (query, reference) pairs.
    """

    query_ids: list[str]
    pairs: frozenset[tuple[str, str]]


def read_ground_truth(path: Path | str) -> GroundTruth:
    """Read a CSV of `query_id,reference_id`; an empty reference means that the query copies nothing.

    Raises:
        UserError: no such file, no such table, an empty query id, no row.
    """
    path = Path(path)
    table = read_table(path, COLUMNS, f"a ground truth CSV with the columns {','.join(COLUMNS)}")
    if (table["query_id"] == "").any():
        row = int((table["query_id"] == "").to_numpy().argmax())
        raise UserError(f"{path}, line {row + 2}: the query id is empty.")
    if table.empty:
        raise UserError(f"{path} names no query.")
    query_ids = list(dict.fromkeys(table["query_id"]))
    pairs = frozenset((q, r) for q, r in zip(table["query_id"], table["reference_id"], strict=True) if r)
    return GroundTruth(query_ids, pairs)


def write_ground_truth(path: Path | str, rows: Iterable[tuple[str, str | None]]) -> None:
    """Write rows of (query id, reference id, or None for a query that copies nothing)."""
    table = pd.DataFrame([(q, r or "") for q, r in rows], columns=COLUMNS)
    with whole_file(Path(path)) as temporary:
        table.to_csv(temporary, index=False)
