"""MultiGrain's trade-off between classes and copies, and their shares of the gradient, drawn from the results file."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from image_copies.data.errors import UserError

ARM = "repeated, λ "  # and the weight of the cross entropy
FIGURES = {"top1": "top-1 of held-out images", "copies": "copies of 5 found"}
SHARES = {"gradient_first": "beginning", "gradient_last": "end"}  # of the classes in the gradient
Tradeoff = dict[float, dict[str, list[float]]]  # by λ and figure, run by run


def collect_tradeoff(measurements: Sequence[dict[str, Any]]) -> Tradeoff:
    """Return the runs at each λ with the most steps, of entries of the results file.

    Raises:
        UserError: there are fewer than two values of λ with as many steps.
    """
    swept = [
        entry for entry in measurements if entry["name"].removeprefix(ARM).replace(".", "", 1).isdecimal()
    ]
    most = max((entry["about"]["steps"] for entry in swept), default=0)
    found: Tradeoff = {}
    for entry in swept:
        if entry["about"]["steps"] == most:
            runs = found.setdefault(
                float(entry["name"].removeprefix(ARM)), {figure: [] for figure in (*FIGURES, *SHARES)}
            )
            for figure in runs:
                runs[figure].append(entry["figures"].get(figure, math.nan))  # λ 1 has no share
    if len(found) < 2:
        raise UserError(
            f"{len(found)} values of λ were measured; measure them first: measure_claims.py --only 5."
        )
    return dict(sorted(found.items()))


def plot_tradeoff(tradeoff: Tradeoff, path: Path) -> None:
    """Draw both figures by λ, one against the other (MultiGrain, figure 5), and the shares (ICLR, figure C.1).

    Bars are standard deviations.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(17, 4))
    means = {name: [float(np.mean(runs[name])) for runs in tradeoff.values()] for name in FIGURES}
    for axis, (name, label) in zip(axes, FIGURES.items(), strict=False):
        axis.errorbar(
            list(tradeoff),
            means[name],
            [float(np.std(runs[name])) for runs in tradeoff.values()],
            fmt="o-",
            capsize=3,
        )
        axis.set(xlabel="λ", ylabel=label)
    axes[2].plot(means["top1"], means["copies"], "o-")
    for weight, x, y in zip(tradeoff, means["top1"], means["copies"], strict=True):
        axes[2].annotate(f"{weight:g}", (x, y), textcoords="offset points", xytext=(4, 4))
    axes[2].set(xlabel=FIGURES["top1"], ylabel=FIGURES["copies"])
    for name, label in SHARES.items():
        shares = {weight: runs[name] for weight, runs in tradeoff.items() if not np.isnan(runs[name]).any()}
        heights, spread = ([float(of(runs)) for runs in shares.values()] for of in (np.mean, np.std))
        axes[3].errorbar(list(shares), heights, spread, fmt="o-", capsize=3, label=label)
    axes[3].set(xlabel="λ", ylabel="share of the classes in the gradient", ylim=(0, 1))
    axes[3].legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
