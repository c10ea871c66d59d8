"""The report of a run, and the page that compares submissions."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from image_copies.data.layout import GROUND_TRUTH
from image_copies.submissions.ensemble.variant import title_columns
from image_copies.submissions.report.charts import (
    draw_distribution,
    draw_precision_recall,
    draw_steps,
    draw_training,
    list_stages,
)
from image_copies.submissions.report.gallery import (
    Card,
    Gallery,
    draw_pair,
    find_best_wrong,
    list_missed_pictures,
    make_galleries,
    suggest_copies,
    write_page,
)
from image_copies.submissions.report.inputs import ComparisonInputs, ReportInputs, RunInputs, Side, UnscoredInputs, format_number
from image_copies.submissions.scoring.breakdown import (
    Change,
    RankedCopy,
    compare_pairs,
    compare_recall_by_edit,
    format_changes,
    list_lost_copies,
    list_new_false_alarms,
    list_won_copies,
    read_edits,
    tabulate_recall_by_edit,
    tabulate_recall_by_number,
)
from image_copies.submissions.scoring.metrics import QueryScores, group_scores


def write_report(inputs: ReportInputs, folder: Path) -> Path:
    """Write `index.html` and its thumbnails atomically, replacing an existing folder; return the path of the page.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    listed, edits = _read_edits(inputs)
    scores = inputs.distributions[-1].scores if inputs.distributions else QueryScores()
    truth = inputs.ground_truth
    values = _draw_run(inputs) | {
        "steps": draw_steps(inputs.variants),
        "curve": draw_precision_recall([("", inputs.ranked)]),
        "distributions": [draw_distribution(d.title, group_scores(d.scores, truth), d.threshold) for d in inputs.distributions],
        "by_edit": _rows(tabulate_recall_by_edit(inputs.ranked, truth, listed)) if listed else [],
        "by_number": _rows(tabulate_recall_by_number(inputs.ranked, truth, listed)) if listed else [],
    }
    return write_page(folder, "report.html.jinja", inputs, make_galleries(inputs.ranked, truth, scores, edits), values)


def write_unscored_report(inputs: UnscoredInputs, folder: Path) -> Path:
    """Write the report of a run that cannot be scored, as `write_report` does.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    galleries = [suggest_copies(inputs.pairs, _read_edits(inputs)[1])]
    return write_page(folder, "unscored.html.jinja", inputs, galleries, _draw_run(inputs) | {"ground_truth": GROUND_TRUTH})


def _read_edits(inputs: RunInputs) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the names of each query's edits, by query id, as a list and separated by spaces; empty where they are not known."""
    listed = read_edits(inputs.edits_file) if inputs.edits_file is not None else {}
    return listed, {query_id: " ".join(names) for query_id, names in listed.items()}


def _draw_run(inputs: RunInputs) -> dict[str, object]:
    """Return what run.html.jinja needs besides the inputs.

    These are the titles of the columns of the synthetic queries, and name, curve and stages of every model that was trained.
    """
    trained = [(name, draw_training(name, curve), list_stages(curve)) for name, curve in inputs.curves.items() if len(curve)]
    return {"training": trained, "synthetic_columns": title_columns(map(str, inputs.synthetic[0] if inputs.synthetic else ()))}


def _rows(table: pd.DataFrame) -> list[tuple[object, int, float]]:
    """Return the table's rows: name, copies, recall."""
    return list(table.itertuples(index=False, name=None))


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
    alarms = (
        (second, list_new_false_alarms(first.ranked, second.ranked)),
        (first, list_new_false_alarms(second.ranked, first.ranked)),
    )

    def draw(shown: list[Change], side: Side) -> list[Card]:
        """Draw changes with the scores of one side below the pictures."""
        wrong = find_best_wrong(side.ranked, QueryScores())
        return [
            _draw_change(change, change.first if side is first else change.second, wrong.get(change.query_id), edits)
            for change in shown[:MAX_CARDS]
        ]

    return [
        Gallery(
            f"Won by {second.name}",
            f"Copies that {second.name} finds at 90 % precision and {first.name} does not, greatest gain in µAP first. "
            f"The scores below the pictures are those of {first.name}.",
            draw(list_won_copies(changes), first),
        ),
        Gallery(
            f"Lost by {second.name}",
            f"Copies that {first.name} finds at 90 % precision and {second.name} does not, greatest loss of µAP first. "
            f"The scores below the pictures are those of {second.name}.",
            draw(list_lost_copies(changes), second),
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
