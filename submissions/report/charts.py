"""Matplotlib figures as inline SVG in the page's own colours, light or dark, and in its own font."""

import io
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from ..scoring.metrics import RankedPairs

WIDTH = 5.0  # inches: text stays readable on a phone, and two figures fit side by side on a desktop

# Placeholder colours that Matplotlib draws with; each is replaced by a colour of the page, which follows light or dark mode.
INK, FIRST, SECOND = "#000000", "#010000", "#020000"
_PAGE = {INK: "currentColor", FIRST: "var(--bar)", SECOND: "var(--second)"}
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
    return (
        Markup('<figure class="chart" role="img" aria-label="{}">').format(about)
        + Markup(svg)
        + Markup("</figure>")
    )


CURVE_POINTS = 800  # drawn at most of a precision-recall curve


def draw_precision_recall(ranked: RankedPairs) -> Markup:
    """Draw precision over recall of a ranking, with the point of highest recall at 90 % precision."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        steps = np.unique(
            np.linspace(0, max(len(ranked.true) - 1, 0), min(CURVE_POINTS, len(ranked.true))).astype(int)
        )
        good = np.flatnonzero(ranked.precision >= 0.9)
        label = "precision never reaches 90 %"
        if len(good):
            best = good[np.argmax(ranked.recall[good])]
            label = f"recall {ranked.recall[best]:.3f} at 90 % precision"
            axes.plot(ranked.recall[best], ranked.precision[best], "o", color=FIRST, markersize=8, zorder=3)
            axes.plot(
                [ranked.recall[best]] * 2,
                [0, ranked.precision[best]],
                color=FIRST,
                linewidth=0.8,
                linestyle=":",
            )
            steps = np.union1d(steps, [best])
        axes.plot(ranked.recall[steps], ranked.precision[steps], color=FIRST, linewidth=2, label=label)
        axes.axhline(0.9, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        axes.grid(alpha=0.2)
        figure.legend(loc="outside lower center", ncols=1, fontsize=10)

    return draw(paint, 3.7, "precision over recall")


def draw_training(name: str, curve: pd.DataFrame) -> Markup:
    """Draw loss above and validation µAP below, where there are any, with a line where a stage begins; a row is an epoch."""
    labels = {"loss": "loss", "validation": "validation µAP"}
    shown = [column for column in labels if curve[column].notna().any()]
    epochs = np.arange(1, len(curve) + 1)
    starts = np.flatnonzero(np.diff(curve["stage"], prepend=-1))

    def paint(figure: Figure) -> None:
        panels = np.atleast_1d(figure.subplots(max(len(shown), 1), 1, sharex=True))
        for axes, column, colour in zip(panels, shown, (FIRST, SECOND), strict=False):
            known = curve[column].notna()
            marker = "o" if known.sum() <= 30 else ""
            values = curve[column][known]
            axes.plot(
                epochs[known],
                values,
                color=colour,
                linewidth=1.8,
                marker=marker,
                markersize=4,
                clip_on=False,
            )
            axes.set(ylabel=labels[column])
            axes.grid(alpha=0.2)
            if column == "validation":
                axes.set_ylim(0, None)
        above = panels[0].get_xaxis_transform()
        for start, end in pairwise([*starts, len(curve)]):
            for axes in panels if start else ():
                axes.axvline(start + 0.5, color=INK, linewidth=0.9, linestyle="--")
            number = str(curve["stage"][start])
            middle = (start + end + 1) / 2
            panels[0].text(middle, 1.02, number, transform=above, ha="center", va="bottom", fontsize=10)
        panels[-1].set(xlabel="epochs of all stages", xlim=(0.5, len(curve) + 0.5))

    return draw(paint, 1.0 + 1.5 * max(len(shown), 1), f"training of {name}")
