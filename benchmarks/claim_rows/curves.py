"""MultiGrain's trade-off between classes and copies, drawn from the results file."""

from pathlib import Path

import numpy as np
from claim_rows.store import Store

from data.errors import UserError

ARM = "repeated, λ "  # and the weight of the cross entropy
FIGURES = {"top1": "top-1 of held-out images", "copies": "copies of 5 found"}
Tradeoff = dict[float, dict[str, list[float]]]  # by λ and figure, run by run


def collect_tradeoff(store: Store) -> Tradeoff:
    """Return the runs at each λ with the most steps that the file has.

    Raises:
        UserError: the file has fewer than two values of λ with as many steps.
    """
    swept = [entry for entry in store.measurements if entry["name"].removeprefix(ARM).replace(".", "", 1).isdecimal()]
    most = max((entry["about"]["steps"] for entry in swept), default=0)
    found: Tradeoff = {}
    for entry in swept:
        if entry["about"]["steps"] == most:
            runs = found.setdefault(float(entry["name"].removeprefix(ARM)), {figure: [] for figure in FIGURES})
            for figure in FIGURES:
                runs[figure].append(entry["figures"][figure])
    if len(found) < 2:
        raise UserError(f"{store.path} has {len(found)} values of λ; measure them first: claims.py --only 5.")
    return dict(sorted(found.items()))


def plot_tradeoff(tradeoff: Tradeoff, path: Path) -> None:
    """Draw both figures by λ, and one against the other as in MultiGrain's figure 5; bars are standard deviations."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4))
    means = {name: [float(np.mean(runs[name])) for runs in tradeoff.values()] for name in FIGURES}
    for axis, (name, label) in zip(axes, FIGURES.items(), strict=False):
        axis.errorbar(list(tradeoff), means[name], [float(np.std(runs[name])) for runs in tradeoff.values()], fmt="o-", capsize=3)
        axis.set(xlabel="λ", ylabel=label)
    axes[2].plot(means["top1"], means["copies"], "o-")
    for weight, x, y in zip(tradeoff, means["top1"], means["copies"], strict=True):
        axes[2].annotate(f"{weight:g}", (x, y), textcoords="offset points", xytext=(4, 4))
    axes[2].set(xlabel=FIGURES["top1"], ylabel=FIGURES["copies"])
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
