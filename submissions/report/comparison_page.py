"""A page that compares two submissions: the difference in scores, and the copies that one of them won or lost, with pictures."""

from collections.abc import Mapping
from pathlib import Path

from image_copies.submissions.report.charts import draw_precision_recall
from image_copies.submissions.report.gallery import (
    Card,
    Gallery,
    draw_pair,
    find_best_wrong,
    list_missed_pictures,
)
from image_copies.submissions.report.inputs import ComparisonInputs
from image_copies.submissions.report.pictures import write_page
from image_copies.submissions.report.rendering import format_number
from image_copies.submissions.scoring.breakdown import read_edits
from image_copies.submissions.scoring.comparison import (
    Change,
    RankedCopy,
    compare_pairs,
    compare_recall_by_edit,
    format_changes,
    list_lost_copies,
    list_new_false_alarms,
    list_won_copies,
)
from image_copies.submissions.scoring.query_scores import QueryScores

MAX_CARDS = 48  # in each gallery


def write_comparison(inputs: ComparisonInputs, folder: Path) -> Path:
    """Write `index.html`, its thumbnails and `pairs.csv` atomically, replacing an existing folder; return the path of the page.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    first, second, truth = inputs.first, inputs.second, inputs.ground_truth
    listed = read_edits(inputs.edits_file) if inputs.edits_file is not None else {}
    changes = compare_pairs(first.ranked, second.ranked, truth)
    counts = {
        "both": sum(change.first.found and change.second.found for change in changes),
        "first": len(list_lost_copies(changes)),
        "second": len(list_won_copies(changes)),
        "neither": sum(not change.first.found and not change.second.found for change in changes),
    }
    by_edit = compare_recall_by_edit(first.ranked, second.ranked, truth, listed).itertuples(index=False) if listed else []
    values = {
        "sides": [first, second],
        "counts": counts,
        "curve": draw_precision_recall([(first.name, first.ranked), (second.name, second.ranked)]),
        "by_edit": list(by_edit),
    }
    galleries = _make_galleries(inputs, changes, {query_id: " ".join(names) for query_id, names in listed.items()})
    return write_page(folder, "comparison.html.jinja", inputs, galleries, values, files={"pairs.csv": format_changes(changes)})


def _make_galleries(inputs: ComparisonInputs, changes: list[Change], edits: Mapping[str, str]) -> list[Gallery]:
    first, second = inputs.first, inputs.second
    wrong = {side.name: find_best_wrong(side.ranked, QueryScores()) for side in (first, second)}
    alarms = (
        (second, list_new_false_alarms(first.ranked, second.ranked)),
        (first, list_new_false_alarms(second.ranked, first.ranked)),
    )
    return [
        Gallery(
            f"Won by {second.name}",
            f"Copies that {second.name} finds at 90 % precision and {first.name} does not, greatest gain in µAP first. "
            f"The scores below the pictures are those of {first.name}.",
            [
                _draw_change(change, change.first, wrong[first.name].get(change.query_id), edits)
                for change in list_won_copies(changes)[:MAX_CARDS]
            ],
        ),
        Gallery(
            f"Lost by {second.name}",
            f"Copies that {first.name} finds at 90 % precision and {second.name} does not, greatest loss of µAP first. "
            f"The scores below the pictures are those of {second.name}.",
            [
                _draw_change(change, change.second, wrong[second.name].get(change.query_id), edits)
                for change in list_lost_copies(changes)[:MAX_CARDS]
            ],
        ),
        *(
            Gallery(
                f"False alarms of {side.name} alone",
                "Wrong pairs above the threshold of 90 % precision in this submission only, highest score first.",
                [draw_pair(side.ranked, edits, index, "wrong") for index in indices[:MAX_CARDS]],
            )
            for side, indices in alarms
        ),
    ]


def _draw_change(change: Change, missed: RankedCopy, wrong: tuple[str, float] | None, edits: Mapping[str, str]) -> Card:
    """Return the card of a copy that one side finds, with the best wrong reference of the side that misses it."""
    pictures = list_missed_pictures(change.query_id, change.reference_id, missed.score, wrong)
    ranks = " → ".join("not ranked" if ranked.rank is None else f"rank {ranked.rank}" for ranked in (change.first, change.second))
    scores = " → ".join(
        "none" if ranked.score is None else format_number(ranked.score) for ranked in (change.first, change.second)
    )
    text = f"{ranks}; score {scores}; µAP {format_number(change.gain, '+.5f')}"
    return Card(pictures, text, edits.get(change.query_id, ""))
