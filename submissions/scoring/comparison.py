"""Two rankings of the same queries: which copies were won or lost, and how much µAP each of them is."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.files import whole_file
from data.ground_truth import GroundTruth
from submissions.scoring.breakdown import last_place_at_90, pairs_found_at_90, recall_by_edit
from submissions.scoring.metrics import RankedPairs

Pair = tuple[str, str]


@dataclass(frozen=True)
class Place:
    """A true pair's place in a ranking.

    Attributes:
        rank: from 1; None where the pair is not ranked.
        score: −‖q − r‖²; None where the pair is not ranked.
        found: whether it is found at 90 % precision.
        share: what it adds to µAP.
    """

    rank: int | None
    score: float | None
    found: bool
    share: float


@dataclass(frozen=True)
class Change:
    """A true pair in two rankings.

    Attributes:
        query_id: of the pair.
        reference_id: of the pair.
        first: its place in the first ranking.
        second: its place in the second ranking.
    """

    query_id: str
    reference_id: str
    first: Place
    second: Place

    @property
    def gain(self) -> float:
        """The pair's part of µAP(second) − µAP(first), which all true pairs' gains add up to."""
        return self.second.share - self.first.share


def compare_pairs(first: RankedPairs, second: RankedPairs, truth: GroundTruth) -> list[Change]:
    """Every true pair, the one with the highest gain first."""
    before, after = _places(first, truth), _places(second, truth)
    nowhere = Place(None, None, False, 0.0)
    changes = [Change(*pair, before.get(pair, nowhere), after.get(pair, nowhere)) for pair in sorted(truth.pairs)]
    return sorted(changes, key=lambda change: -change.gain)


def won(changes: list[Change]) -> list[Change]:
    """Copies that only the second ranking finds at 90 % precision, the highest gain first."""
    return [change for change in changes if change.second.found and not change.first.found]


def lost(changes: list[Change]) -> list[Change]:
    """Copies that only the first ranking finds at 90 % precision, the highest loss first."""
    return [change for change in reversed(changes) if change.first.found and not change.second.found]


def new_false_alarms(first: RankedPairs, second: RankedPairs) -> list[int]:
    """Places in `second` of wrong pairs that count at 90 % precision there but not in `first`, highest score first."""
    known = set(list(zip(first.query_ids, first.reference_ids, strict=True))[: last_place_at_90(first)])
    return [
        place
        for place in range(last_place_at_90(second))
        if not second.true[place] and (second.query_ids[place], second.reference_ids[place]) not in known
    ]


def recall_by_edit_of_both(
    first: RankedPairs, second: RankedPairs, truth: GroundTruth, edits: dict[str, list[str]]
) -> pd.DataFrame:
    """Table of edit, copies, and recall at 90 % precision in `first` and `second`; the greatest change of found copies first."""
    before, after = (recall_by_edit(ranked, truth, edits) for ranked in (first, second))
    table = before.rename(columns={"recall": "first"}).assign(
        second=after.set_index("edit")["recall"].reindex(before["edit"]).array
    )
    order = ((table["second"] - table["first"]) * table["copies"]).abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def write_changes(path: Path, changes: list[Change]) -> None:
    """Write each pair with its rank, score and found in both rankings and its gain in µAP, as CSV."""
    rows = [
        {"query_id": change.query_id, "reference_id": change.reference_id}
        | {f"{name}_rank": place.rank for name, place in (("first", change.first), ("second", change.second))}
        | {f"{name}_score": place.score for name, place in (("first", change.first), ("second", change.second))}
        | {f"{name}_found": int(place.found) for name, place in (("first", change.first), ("second", change.second))}
        | {"gain": change.gain}
        for change in changes
    ]
    with whole_file(path) as temporary:
        pd.DataFrame(rows).convert_dtypes().to_csv(temporary, index=False)


def _places(ranked: RankedPairs, truth: GroundTruth) -> dict[Pair, Place]:
    found = pairs_found_at_90(ranked)
    places = {}
    for place in ranked.true.nonzero()[0].tolist():
        pair = (ranked.query_ids[place], ranked.reference_ids[place])
        share = float(ranked.precision[place]) / len(truth.pairs)
        places[pair] = Place(place + 1, -float(ranked.distances[place]), pair in found, share)
    return places
