"""The report of a run."""

from pathlib import Path

from image_copies.data.layout import GROUND_TRUTH

from ..scoring.breakdown import read_edits, tabulate_recall_by_edit
from .charts import draw_precision_recall, draw_training
from .gallery import make_galleries, suggest_copies, write_page
from .inputs import ReportInputs, RunInputs, UnscoredInputs


def write_report(inputs: ReportInputs, folder: Path) -> Path:
    """Write `index.html` and its thumbnails atomically, replacing an existing folder; return the path of the page.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    listed, edits = _read_edits(inputs)
    by_edit = (
        tabulate_recall_by_edit(inputs.ranked, inputs.ground_truth, listed).itertuples(index=False)
        if listed
        else []
    )
    values = {
        "training": _draw_trainings(inputs),
        "curve": draw_precision_recall(inputs.ranked),
        "by_edit": list(by_edit),
    }
    galleries = make_galleries(inputs.ranked, inputs.ground_truth, edits)
    return write_page(folder, "report.html.jinja", inputs, galleries, values)


def write_unscored_report(inputs: UnscoredInputs, folder: Path) -> Path:
    """Write the report of a run that cannot be scored, as `write_report` does.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    galleries = [suggest_copies(inputs.pairs, _read_edits(inputs)[1])]
    values = {"training": _draw_trainings(inputs), "ground_truth": GROUND_TRUTH}
    return write_page(folder, "unscored.html.jinja", inputs, galleries, values)


def _read_edits(inputs: RunInputs) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the names of each query's edits, by query id, as a list and separated by spaces; empty where they are not known."""
    listed = read_edits(inputs.edits_file) if inputs.edits_file is not None else {}
    return listed, {query_id: " ".join(names) for query_id, names in listed.items()}


def _draw_trainings(inputs: RunInputs) -> list[tuple[str, str]]:
    """Return the name and the learning curve of every model that was trained."""
    return [(name, draw_training(name, curve)) for name, curve in inputs.curves.items() if len(curve)]
