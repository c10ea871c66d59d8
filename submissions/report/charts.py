"""The report's charts: scores of every step, precision over recall, score distributions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from image_copies.submissions.report.rendering import format_number
from image_copies.submissions.report.svg import FIRST, INK, SECOND, SOFT, THIRD, draw
from image_copies.submissions.scoring.metrics import RankedPairs
from image_copies.submissions.scoring.query_scores import ScoreGroups

CURVE_POINTS = 800  # drawn at most of a precision-recall curve
HISTOGRAM_BINS = 40
ROW_HEIGHT = 0.46  # inches for each step
DOT_STYLE: dict[str, Any] = {"markersize": 4.5, "markerfacecolor": "none", "markeredgecolor": INK}


def draw_steps(variants: Sequence[dict[str, Any]]) -> Markup:
    """Draw µAP of every step as a bar, with its interval where known, and recall at 90 % precision as a dot.

    Each row has the keys name, submitted, micro_average_precision, recall_at_precision_90 and, optionally,
    micro_average_precision_95 (low, high).
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for height, row in enumerate(variants):
            value, bounds = row["micro_average_precision"], row.get("micro_average_precision_95")
            axes.barh(height, value, 0.42, color=_step_colour(row), alpha=1 if row["submitted"] else 0.75)
            if bounds is not None:
                axes.plot(bounds, [height, height], color=INK, linewidth=1.2)
            axes.plot(row["recall_at_precision_90"], height, "o", clip_on=False, **DOT_STYLE)
            weight = "bold" if row["submitted"] else "normal"
            axes.text(0, height - 0.27, row["name"], va="bottom", fontsize=10, weight=weight)
            axes.text(1, height - 0.27, f"{value:.3f}", va="bottom", ha="right", fontsize=10, weight=weight)
        axes.plot([], [], "o", label="recall at 90 % precision", **DOT_STYLE)
        axes.plot([], [], color=INK, linewidth=1.2, label="95 % of bootstrap draws of µAP")
        axes.set(xlabel="µAP", xlim=(0, 1), ylim=(len(variants) - 0.6, -0.85), yticks=[])
        axes.spines.left.set_visible(False)
        axes.grid(axis="x", alpha=0.2)
        figure.legend(loc="outside lower center", ncols=1, fontsize=10)

    return draw(paint, 1.2 + ROW_HEIGHT * len(variants), "µAP of every step")


def _step_colour(row: dict[str, Any]) -> str:
    if row["submitted"]:
        return THIRD
    return SOFT if row["name"].startswith("baseline") else FIRST


def draw_precision_recall(curves: Sequence[tuple[str, RankedPairs]]) -> Markup:
    """Draw precision over recall of one or two rankings, each with the point of highest recall at 90 % precision.

    An empty name is left out of the legend.
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for (name, ranked), colour in zip(curves, (FIRST, SECOND), strict=False):
            steps = np.unique(np.linspace(0, max(len(ranked.true) - 1, 0), min(CURVE_POINTS, len(ranked.true))).astype(int))
            good = np.flatnonzero(ranked.precision >= 0.9)
            label = f"{name}: precision never reaches 90 %".removeprefix(": ")
            if len(good):
                best = good[np.argmax(ranked.recall[good])]
                label = f"{name}: recall {ranked.recall[best]:.3f} at 90 % precision".removeprefix(": ")
                axes.plot(ranked.recall[best], ranked.precision[best], "o", color=colour, markersize=8, zorder=3)
                axes.plot([ranked.recall[best]] * 2, [0, ranked.precision[best]], color=colour, linewidth=0.8, linestyle=":")
                steps = np.union1d(steps, [best])
            axes.plot(ranked.recall[steps], ranked.precision[steps], color=colour, linewidth=2, label=label)
        axes.axhline(0.9, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        axes.grid(alpha=0.2)
        figure.legend(loc="outside lower center", ncols=1, fontsize=10)

    return draw(paint, 3.7, "precision over recall")


def draw_distribution(title: str, groups: ScoreGroups, threshold: float | None) -> Markup:
    """Draw histograms of the three groups' scores, each normalised to its group, and a line at the threshold, if there is one."""
    named = (
        ("true copies", groups.true_copies, THIRD),
        ("best wrong reference of a copy", groups.best_wrong, SECOND),
        ("best reference of a distractor", groups.distractors, FIRST),
    )

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        every = np.concatenate([scores for _, scores, _ in named])
        low, high = (every.min(), max(every.max(), every.min() + 1e-6)) if len(every) else (-1, 0)
        edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
        for name, scores, colour in named:
            if len(scores):
                shares = np.histogram(scores, edges)[0] / len(scores)
                axes.stairs(shares, edges, fill=True, color=colour, alpha=0.18)
                axes.stairs(shares, edges, color=colour, linewidth=1.8, label=f"{name} ({len(scores)})")
        if threshold is not None:
            axes.axvline(threshold, color=INK, linewidth=1.2, linestyle="--", label=f"90 % precision: {format_number(threshold)}")
        axes.set(title=title, xlabel="score −‖q − r‖²", ylabel="share of the group")
        figure.legend(loc="outside lower center", ncols=1, fontsize=10)

    return draw(paint, 3.9, f"distribution of scores, {title}")
