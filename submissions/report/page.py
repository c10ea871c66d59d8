"""The report: one self-contained folder that opens from disk, without a network."""

import io
from pathlib import Path

import matplotlib
import numpy as np
from markupsafe import Markup

from data.files import whole_folder
from submissions.breakdown import read_edits, recall_by_edit, recall_by_number
from submissions.metrics import RankedPairs
from submissions.report.gallery import Card, false_alarms, found_copies, missed_copies
from submissions.report.inputs import ReportInputs
from submissions.report.rendering import render
from submissions.report.thumbnails import Thumbnails

CURVE_POINTS = 800


def write_report(inputs: ReportInputs, folder: Path) -> Path:
    """Write `index.html` and its thumbnails; whole or not at all. Returns the page's path."""
    listed = read_edits(inputs.edits_file) if inputs.edits_file is not None else {}
    edits = {query_id: " ".join(names) for query_id, names in listed.items()}
    galleries = [
        ("Found copies", "True pairs, from the surest to the least sure.", found_copies(inputs, edits)),
        (
            "Missed copies",
            "True pairs that rank last or not at all; the middle picture ranked first.",
            missed_copies(inputs, edits),
        ),
        ("False alarms", "Wrong pairs that rank highest.", false_alarms(inputs, edits)),
    ]
    with whole_folder(folder) as temporary:
        queries = Thumbnails(temporary / "images", inputs.queries, "q")
        references = Thumbnails(temporary / "images", inputs.references, "r")
        html = render(
            "report.html.jinja",
            inputs=inputs,
            curve=Markup(precision_recall_svg(inputs.ranked)),
            galleries=[
                (title, text, [_pictures(card, queries, references) for card in cards]) for title, text, cards in galleries
            ],
            breakdowns=_breakdowns(inputs, listed),
            highest=max((row["micro_average_precision"] for row in inputs.variants), default=1) or 1,
        )
        (temporary / "index.html").write_text(html, encoding="utf-8")
    return folder / "index.html"


def precision_recall_svg(ranked: RankedPairs) -> str:
    """The precision-recall curve as SVG in the page's own colours, with the last point of 90 % precision."""
    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, axes = pyplot.subplots(figsize=(6, 4))
        chosen = (
            np.unique(np.linspace(0, len(ranked.true) - 1, CURVE_POINTS).astype(int)) if len(ranked.true) else np.zeros(0, int)
        )
        axes.plot(ranked.recall[chosen], ranked.precision[chosen], color="#2f6fd0", linewidth=2)
        good = np.flatnonzero(ranked.precision >= 0.9)
        if len(good):
            best = good[np.argmax(ranked.recall[good])]
            axes.plot(ranked.recall[best], ranked.precision[best], "o", color="#d0582f")
            axes.annotate(
                f"recall {ranked.recall[best]:.3f} at 90 %", (ranked.recall[best], 0.9), (8, 4), textcoords="offset points"
            )
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        axes.grid(alpha=0.25)
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, bbox_inches="tight")
        pyplot.close(figure)
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :]
    return svg.replace("#000000", "currentColor").replace('<text style="', '<text style="fill: currentColor; ')


def _breakdowns(inputs: ReportInputs, edits: dict[str, list[str]]) -> list[tuple[str, list[tuple[object, int, float]]]]:
    """Recall by edit and by number of edits as rows (name, copies, recall); nothing where the edits are not known."""
    if not edits:
        return []
    tables = [
        ("Recall by edit", recall_by_edit(inputs.ranked, inputs.ground_truth, edits)),
        ("Recall by number of edits", recall_by_number(inputs.ranked, inputs.ground_truth, edits)),
    ]
    return [(title, list(table.itertuples(index=False, name=None))) for title, table in tables]


def _pictures(card: Card, queries: Thumbnails, references: Thumbnails) -> dict[str, object]:
    return {
        "card": card,
        "query": queries(card.query_id),
        "reference": references(card.reference_id),
        "true_reference": references(card.true_reference_id) if card.true_reference_id != card.reference_id else None,
    }
