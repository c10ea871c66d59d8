"""The report of a run: a self-contained folder that a browser opens from disk, without a network."""

from pathlib import Path

import pandas as pd

from image_copies.data.layout import GROUND_TRUTH
from image_copies.submissions.ensemble.synthetic_columns import title_columns
from image_copies.submissions.report.charts import draw_distribution, draw_precision_recall, draw_steps
from image_copies.submissions.report.gallery import make_galleries, suggest_copies
from image_copies.submissions.report.inputs import ReportInputs, RunInputs, UnscoredInputs
from image_copies.submissions.report.pictures import write_page
from image_copies.submissions.report.training import draw_training, list_stages
from image_copies.submissions.scoring.breakdown import read_edits, tabulate_recall_by_edit, tabulate_recall_by_number
from image_copies.submissions.scoring.query_scores import QueryScores, group_scores


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
