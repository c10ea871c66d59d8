"""Matplotlib figures as inline SVG in the page's own colours, light or dark, and in its own font."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from image_copies.submissions.report.inputs import format_number
from image_copies.submissions.scoring.metrics import RankedPairs, ScoreGroups

WIDTH = 5.0  # inches: text stays readable on a phone, and two figures fit side by side on a desktop

# Placeholder colours that Matplotlib draws with; each is replaced by a colour of the page, which follows light or dark mode.
INK, SOFT, FIRST, SECOND, THIRD = "#000000", "#010000", "#020000", "#030000", "#040000"
_PAGE = {INK: "currentColor", SOFT: "var(--soft)", FIRST: "var(--bar)", SECOND: "var(--second)", THIRD: "var(--good)"}
_STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def draw(paint: Callable[[Figure], Any], height: float, about: str) -> Markup:
    """Paint a figure of a height in inches and return it as an HTML element, with a description for screen readers."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure)
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :].replace('<text style="', '<text style="fill: currentColor; ')
    for drawn, shown in _PAGE.items():
        svg = svg.replace(drawn, shown)
    return Markup('<figure class="chart" role="img" aria-label="{}">').format(about) + Markup(svg) + Markup("</figure>")


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


STAGE_COLUMNS = ("classes", "intensity", "image_size")


@dataclass(frozen=True)
class Stage:
    """A stage of drip training, as a row of the report's table; None for what the curve has not."""

    stage: int  # from 1
    epochs: int
    settings: dict[str, float]  # values of STAGE_COLUMNS by name
    loss: float | None  # the last
    validation: float | None  # the last µAP
    ended_by: str  # empty where the curve does not say
    cosine: float | None = None  # mean cosine of different images' vectors at its end, −1…1
    rank: float | None = None  # effective rank of the vectors at its end


def draw_training(name: str, curve: pd.DataFrame) -> Markup:
    """Draw loss above and validation µAP below, with a line where a stage begins.

    The curve has a row per epoch; any of its columns stage, loss and validation may be missing.
    """
    figures = {label: _numbers(curve, column) for column, label in (("loss", "loss"), ("validation", "validation µAP"))}
    figures = {label: values for label, values in figures.items() if np.isfinite(values).any()}
    epochs = np.arange(1, len(curve) + 1)

    def paint(figure: Figure) -> None:
        panels = np.atleast_1d(figure.subplots(max(len(figures), 1), 1, sharex=True))
        for axes, (label, values), colour in zip(panels, figures.items(), (FIRST, SECOND), strict=False):
            known = np.isfinite(values)
            marker = "o" if known.sum() <= 30 else ""
            axes.plot(epochs[known], values[known], color=colour, linewidth=1.8, marker=marker, markersize=4, clip_on=False)
            axes.set(ylabel=label)
            axes.grid(alpha=0.2)
            if label.startswith("validation"):
                axes.set_ylim(0, None)
        for number, start, end in _split_stages(curve):
            if start:
                for axes in panels:
                    axes.axvline(start + 0.5, color=INK, linewidth=0.9, linestyle="--")
            middle, above = (start + end + 1) / 2, panels[0].get_xaxis_transform()
            panels[0].text(middle, 1.02, str(number), transform=above, ha="center", va="bottom", fontsize=10)
        panels[-1].set(xlabel="epochs of all stages", xlim=(0.5, len(curve) + 0.5))

    return draw(paint, 1.0 + 1.5 * max(len(figures), 1), f"training of {name}")


def list_stages(curve: pd.DataFrame) -> list[Stage]:
    """Summarise each stage of a learning curve, in the order of training."""
    rows = []
    for number, start, end in _split_stages(curve):
        part = curve.iloc[start:end]
        last = part.iloc[-1]
        settings = {name: _last(part, name) for name in STAGE_COLUMNS}
        ended = str(last["ended_by"]) if "ended_by" in part and pd.notna(last["ended_by"]) else ""
        known = {name: value for name, value in settings.items() if value is not None}
        figures = (_last(part, name) for name in ("mean_cosine", "effective_rank"))
        rows.append(Stage(number, len(part), known, _last(part, "loss"), _last(part, "validation"), ended, *figures))
    return rows


def _split_stages(curve: pd.DataFrame) -> list[tuple[int, int, int]]:
    """Return (stage, row of its first epoch, row after its last) of each stage; one stage if the curve does not number them."""
    numbers = _numbers(curve, "stage")
    if not np.isfinite(numbers).all():
        numbers = np.ones(len(curve))
    starts = [row for row in range(len(numbers)) if row == 0 or numbers[row] != numbers[row - 1]]
    return [(int(numbers[start]), start, end) for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True)]


def _numbers(curve: pd.DataFrame, column: str) -> np.ndarray:
    """Return the column as float64 [n], with NaN where it is missing or not numeric."""
    if column not in curve:
        return np.full(len(curve), np.nan)
    return pd.to_numeric(curve[column], errors="coerce").to_numpy(np.float64)


def _last(part: pd.DataFrame, column: str) -> float | None:
    """Return the last finite value of the column; None where there is none."""
    values = _numbers(part, column)
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None
