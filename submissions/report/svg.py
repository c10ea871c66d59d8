"""Matplotlib's figures as SVG inside a page, in the page's own colours, light or dark, and with the page's text."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

WIDTH = 5.0  # inches: on a phone the text stays readable, on a desk two figures stand side by side

# Colours that Matplotlib draws with, each standing for one of the page's, which change with the reader's light or dark mode.
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
    """Let `paint` draw on an empty figure of `height` inches; return it as an element that a screen reader calls `about`."""
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
