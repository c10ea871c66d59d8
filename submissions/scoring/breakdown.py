"""Breakdown of µAP: recall by edit and by number of edits, precision and recall along the ranking, two rankings compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from image_copies.data.ground_truth import GroundTruth, read_table, write_table
from image_copies.submissions.scoring.metrics import RankedPairs

if TYPE_CHECKING:
    import pandas as pd

CURVE_COLUMNS = ["rank", "squared_distance", "true", "precision", "recall"]


def read_edits(path: Path) -> dict[str, list[str]]:
    """Read the names of each query's edits from a CSV with the columns `query_id,edits`, the edits separated by spaces.

    Raises:
        UserError: when the file is missing, cannot be read as CSV or has other columns.
    """
    rows = read_table(path, ["query_id", "edits"], "a CSV with the columns query_id,edits, the edits separated by spaces")
    return {query: edits.split() for query, edits in rows}


def tabulate_recall_by_edit(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> "pd.DataFrame":
    """Tabulate recall at 90 % precision by edit: edit, copies (true pairs made with it) and recall, most frequent edit first."""
    found = find_pairs_at_90(ranked)
    rows = [(edit, (query, reference) in found) for query, reference in truth.pairs for edit in sorted(set(edits.get(query, [])))]
    return _tabulate(rows, "edit").sort_values(["copies", "edit"], ascending=[False, True], ignore_index=True)


def tabulate_recall_by_number(ranked: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]) -> "pd.DataFrame":
    """Tabulate recall at 90 % precision by the number of edits: edits, copies (pairs with so many) and recall, fewest first."""
    found = find_pairs_at_90(ranked)
    rows = [(len(edits.get(query, [])), (query, reference) in found) for query, reference in truth.pairs]
    return _tabulate(rows, "edits").sort_values("edits", ignore_index=True)


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


def _tabulate(rows: Sequence[tuple[object, bool]], name: str) -> "pd.DataFrame":
    import pandas as pd  # imported here: scores need no tables

    table = pd.DataFrame(rows, columns=[name, "found"])
    return table.groupby(name)["found"].agg(copies="size", recall="mean").reset_index()


Pair = tuple[str, str]


@dataclass(frozen=True)
class RankedCopy:
    """A true pair in a ranking."""

    rank: int | None  # from 1; None where the pair is not ranked
    score: float | None  # −‖q − r‖²
    found: bool  # at 90 % precision
    share: float  # contribution to µAP: precision at its rank over the number of true pairs


@dataclass(frozen=True)
class Change:
    """A true pair in two rankings."""

    query_id: str
    reference_id: str
    first: RankedCopy
    second: RankedCopy

    @property
    def gain(self) -> float:
        """The pair's contribution to µAP(second) − µAP(first); the gains of all true pairs add up to the difference."""
        return self.second.share - self.first.share


def compare_pairs(first: RankedPairs, second: RankedPairs, truth: GroundTruth) -> list[Change]:
    """List every true pair with its rank and score in both rankings of the same queries, highest gain first."""
    before, after = _describe_pairs(first, truth), _describe_pairs(second, truth)
    nowhere = RankedCopy(None, None, False, 0.0)
    changes = [Change(*pair, before.get(pair, nowhere), after.get(pair, nowhere)) for pair in sorted(truth.pairs)]
    return sorted(changes, key=lambda change: -change.gain)


def list_won_copies(changes: list[Change]) -> list[Change]:
    """Return the copies that only the second ranking finds at 90 % precision, greatest gain first."""
    return [change for change in changes if change.second.found and not change.first.found]


def list_lost_copies(changes: list[Change]) -> list[Change]:
    """Return the copies that only the first ranking finds at 90 % precision, greatest loss first."""
    return [change for change in reversed(changes) if change.first.found and not change.second.found]


def list_new_false_alarms(first: RankedPairs, second: RankedPairs) -> list[int]:
    """List the wrong pairs within 90 % precision in `second` only, as indices into its ranking, highest score first."""
    known = set(list(zip(first.query_ids, first.reference_ids, strict=True))[: last_rank_at_90(first)])
    return [
        index
        for index in range(last_rank_at_90(second))
        if not second.true[index] and (second.query_ids[index], second.reference_ids[index]) not in known
    ]


def compare_recall_by_edit(
    first: RankedPairs, second: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]
) -> "pd.DataFrame":
    """Tabulate recall at 90 % precision by edit in two rankings of the same queries: edit, copies, first and second.

    The order is that of the absolute change in the number of copies found, greatest first.
    """
    before, after = (tabulate_recall_by_edit(ranked, truth, edits) for ranked in (first, second))
    table = before.rename(columns={"recall": "first"}).assign(
        second=after.set_index("edit")["recall"].reindex(before["edit"]).array
    )
    order = ((table["second"] - table["first"]) * table["copies"]).abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def format_changes(changes: list[Change]) -> str:
    """Return each pair as CSV: its rank, its score and whether it is found in both rankings, and its gain in µAP."""
    import pandas as pd  # imported here: scores need no tables

    rows = [
        {"query_id": change.query_id, "reference_id": change.reference_id}
        | {f"{name}_rank": copy.rank for name, copy in (("first", change.first), ("second", change.second))}
        | {f"{name}_score": copy.score for name, copy in (("first", change.first), ("second", change.second))}
        | {f"{name}_found": int(copy.found) for name, copy in (("first", change.first), ("second", change.second))}
        | {"gain": change.gain}
        for change in changes
    ]
    return str(pd.DataFrame(rows).convert_dtypes().to_csv(index=False))


def _describe_pairs(ranked: RankedPairs, truth: GroundTruth) -> dict[Pair, RankedCopy]:
    found = find_pairs_at_90(ranked)
    described = {}
    for index in ranked.true.nonzero()[0].tolist():
        pair = (ranked.query_ids[index], ranked.reference_ids[index])
        share = float(ranked.precision[index]) / len(truth.pairs)
        described[pair] = RankedCopy(index + 1, -float(ranked.distances[index]), pair in found, share)
    return described
