"""Where µAP is lost: recall by edit and by number of edits, precision and recall along the ranking."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import UserError
from data.files import whole_file
from data.ground_truth import GroundTruth
from submissions.scoring.metrics import RankedPairs

CURVE_COLUMNS = ["rank", "squared_distance", "true", "precision", "recall"]


def read_edits(path: Path) -> dict[str, list[str]]:
    """Read a CSV of `query_id,edits`, the edits separated by spaces.

    Raises:
        UserError: the file is missing or is no such table.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(f"{path} is not a CSV file that can be read: {error}") from error
    if list(table.columns) != ["query_id", "edits"] or not isinstance(table.index, pd.RangeIndex):
        raise UserError(f"{path} has the columns {','.join(map(str, table.columns))}; expected query_id,edits.")
    return {query: edits.split() for query, edits in zip(table["query_id"], table["edits"], strict=True)}


def recall_by_edit(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> pd.DataFrame:
    """Table of edit, copies made with it, and recall: their share found at 90 % precision over all queries. Rarest last."""
    found = pairs_found_at_90(ranked)
    rows = [(edit, (query, reference) in found) for query, reference in truth.pairs for edit in sorted(set(edits.get(query, [])))]
    return _table(rows, "edit").sort_values(["copies", "edit"], ascending=[False, True], ignore_index=True)


def recall_by_number(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> pd.DataFrame:
    """Table of the number of edits, copies with so many, and recall: their share found at 90 % precision over all queries."""
    found = pairs_found_at_90(ranked)
    rows = [(len(edits.get(query, [])), (query, reference) in found) for query, reference in truth.pairs]
    return _table(rows, "edits").sort_values("edits", ignore_index=True)


def write_curve(path: Path, ranked: RankedPairs) -> None:
    """Write precision and recall at every rank as CSV."""
    columns = (np.arange(1, len(ranked.true) + 1), ranked.distances, ranked.true.astype(int), ranked.precision, ranked.recall)
    with whole_file(path) as temporary:
        pd.DataFrame(dict(zip(CURVE_COLUMNS, columns, strict=True))).to_csv(temporary, index=False)


def pairs_found_at_90(ranked: RankedPairs) -> set[tuple[str, str]]:
    """The true pairs (query, reference) that rank above the last point of 90 % precision."""
    last = last_place_at_90(ranked)
    pairs = zip(ranked.query_ids[:last], ranked.reference_ids[:last], ranked.true[:last], strict=True)
    return {(query, reference) for query, reference, true in pairs if true}


def last_place_at_90(ranked: RankedPairs) -> int:
    """The length of the ranking down to its last point of 90 % precision, the highest recall; 0 if it never is as precise."""
    good = np.flatnonzero(ranked.precision >= 0.9)
    return int(good[np.argmax(ranked.recall[good])]) + 1 if len(good) else 0


def _table(rows: Sequence[tuple[object, bool]], name: str) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[name, "found"])
    return table.groupby(name)["found"].agg(copies="size", recall="mean").reset_index()
