"""Comparison of two rankings of the same queries: which copies were won or lost, and how much each adds to µAP."""

from dataclasses import dataclass

import pandas as pd

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.breakdown import find_pairs_at_90, last_rank_at_90, tabulate_recall_by_edit
from image_copies.submissions.scoring.metrics import RankedPairs

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
) -> pd.DataFrame:
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
