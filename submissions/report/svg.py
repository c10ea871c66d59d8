"""Matplotlib figures as inline SVG in the page's own colours, light or dark, and in its own font."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

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
