"""Breakdown of µAP: recall by edit and by number of edits, precision and recall along the ranking."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from image_copies.data.errors import UserError
from image_copies.data.files import open_regular, whole_file
from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import RankedPairs

CURVE_COLUMNS = ["rank", "squared_distance", "true", "precision", "recall"]


def read_edits(path: Path) -> dict[str, list[str]]:
    """Read the names of each query's edits from a CSV with the columns `query_id,edits`, the edits separated by spaces.

    Raises:
        UserError: when the file is missing, cannot be read as CSV or has other columns.
    """
    try:
        with open_regular(path) as file:
            table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(f"{path} cannot be read as CSV ({error}). Expected the columns query_id,edits.") from error
    if list(table.columns) != ["query_id", "edits"] or not isinstance(table.index, pd.RangeIndex):
        raise UserError(
            f"{path} has the columns {','.join(map(str, table.columns))}; expected query_id,edits. Separate edits by spaces."
        )
    return {query: edits.split() for query, edits in zip(table["query_id"], table["edits"], strict=True)}


def tabulate_recall_by_edit(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> pd.DataFrame:
    """Tabulate recall at 90 % precision by edit: edit, copies (true pairs made with it) and recall, most frequent edit first."""
    found = find_pairs_at_90(ranked)
    rows = [(edit, (query, reference) in found) for query, reference in truth.pairs for edit in sorted(set(edits.get(query, [])))]
    return _tabulate(rows, "edit").sort_values(["copies", "edit"], ascending=[False, True], ignore_index=True)


def tabulate_recall_by_number(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> pd.DataFrame:
    """Tabulate recall at 90 % precision by the number of edits: edits, copies (pairs with so many) and recall, fewest first."""
    found = find_pairs_at_90(ranked)
    rows = [(len(edits.get(query, [])), (query, reference) in found) for query, reference in truth.pairs]
    return _tabulate(rows, "edits").sort_values("edits", ignore_index=True)


def write_curve(path: Path, ranked: RankedPairs) -> None:
    """Write squared distance, precision and recall at every rank as CSV.

    Raises:
        UserError: when the disk is full.
    """
    columns = (np.arange(1, len(ranked.true) + 1), ranked.distances, ranked.true.astype(int), ranked.precision, ranked.recall)
    with whole_file(path) as temporary:
        pd.DataFrame(dict(zip(CURVE_COLUMNS, columns, strict=True))).to_csv(temporary, index=False)


def find_pairs_at_90(ranked: RankedPairs) -> set[tuple[str, str]]:
    """Return the true pairs (query id, reference id) within the ranking's longest prefix of 90 % precision."""
    last = last_rank_at_90(ranked)
    pairs = zip(ranked.query_ids[:last], ranked.reference_ids[:last], ranked.true[:last], strict=True)
    return {(query, reference) for query, reference, true in pairs if true}


def last_rank_at_90(ranked: RankedPairs) -> int:
    """Return the length of the ranking down to the highest recall at 90 % precision; 0 if precision never reaches 90 %."""
    good = np.flatnonzero(ranked.precision >= 0.9)
    return int(good[np.argmax(ranked.recall[good])]) + 1 if len(good) else 0


def _tabulate(rows: Sequence[tuple[object, bool]], name: str) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[name, "found"])
    return table.groupby(name)["found"].agg(copies="size", recall="mean").reset_index()
