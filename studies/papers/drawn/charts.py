"""Line charts as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]  # by name, x and y


def draw_lines(panels: Mapping[str, Lines], label: str, path: Path, marker: str = "o") -> None:
    """Draw a chart for each panel, by its title, of lines over what `label` names."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for name, (x, y) in lines.items():
            axis.plot(x, y, marker=marker, markersize=4, label=name)
        axis.set(xlabel=label, ylabel=title)
        axis.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
