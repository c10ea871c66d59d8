"""Training curves: loss and validation µAP over the epochs of all stages of drip training."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from image_copies.submissions.report.svg import FIRST, INK, SECOND, draw

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
