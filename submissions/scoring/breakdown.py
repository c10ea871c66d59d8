"""Breakdown of µAP: recall by edit, precision and recall along the ranking."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from image_copies.data.ground_truth import GroundTruth, read_table, write_table

from .metrics import RankedPairs

if TYPE_CHECKING:
    import pandas as pd

CURVE_COLUMNS = ["rank", "squared_distance", "true", "precision", "recall"]


def read_edits(path: Path) -> dict[str, list[str]]:
    """Read the names of each query's edits from a CSV with the columns `query_id,edits`, the edits separated by spaces.

    Raises:
        UserError: when the file is missing, cannot be read as CSV or has other columns.
    """
    rows = read_table(
        path, ["query_id", "edits"], "a CSV with the columns query_id,edits, the edits separated by spaces"
    )
    return {query: edits.split() for query, edits in rows}


def tabulate_recall_by_edit(
    ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]
) -> "pd.DataFrame":
    """Tabulate recall at 90 % precision by edit: edit, copies (true pairs made with it) and recall, most frequent edit first."""
    import pandas as pd  # imported here: scores need no tables

    found = find_pairs_at_90(ranked)
    rows = [
        (edit, (query, reference) in found)
        for query, reference in truth.pairs
        for edit in sorted(set(edits.get(query, [])))
    ]
    table = pd.DataFrame(rows, columns=["edit", "found"])
    counted = table.groupby("edit")["found"].agg(copies="size", recall="mean").reset_index()
    return counted.sort_values(["copies", "edit"], ascending=[False, True], ignore_index=True)


def write_curve(path: Path, ranked: RankedPairs) -> None:
    """Write squared distance, precision and recall at every rank as CSV.

    Raises:
        UserError: when the disk is full.
    """
    columns = (ranked.distances, ranked.true.astype(int), ranked.precision, ranked.recall)
    ranks = range(1, len(ranked.true) + 1)
    write_table(path, CURVE_COLUMNS, zip(ranks, *(column.tolist() for column in columns), strict=True))


def find_pairs_at_90(ranked: RankedPairs) -> set[tuple[str, str]]:
    """Return the true pairs (query id, reference id) within the ranking's longest prefix of 90 % precision."""
    last = last_rank_at_90(ranked)
    pairs = zip(ranked.query_ids[:last], ranked.reference_ids[:last], ranked.true[:last], strict=True)
    return {(query, reference) for query, reference, true in pairs if true}


def last_rank_at_90(ranked: RankedPairs) -> int:
    """Return the length of the ranking down to the highest recall at 90 % precision; 0 if precision never reaches 90 %."""
    good = np.flatnonzero(ranked.precision >= 0.9)
    return int(good[np.argmax(ranked.recall[good])]) + 1 if len(good) else 0
