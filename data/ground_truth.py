"""Which query is a copy of which reference: the challenge's CSV."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.remote import as_path
from image_copies.data.tables import read_table

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
    table = pd.DataFrame([(q, r or "") for q, r in rows], columns=GROUND_TRUTH_COLUMNS)
    with whole_file(as_path(path)) as temporary:
        table.to_csv(temporary, index=False)
