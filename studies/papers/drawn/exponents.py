"""MultiGrain, figures 4a and 4b: top-1 and retrieval by the exponent p* at test time, a line for each size s*."""

from collections.abc import Sequence
from pathlib import Path

from drawn.charts import draw_lines
from drawn.sets import open_view

from image_copies.data.errors import UserError
from image_copies.pipeline.tools.evaluate import EVALUATIONS, Source


def draw_exponents(
    checkpoint: Path,
    classes: Path | None,
    holidays: Path | None,
    sizes: Sequence[int],
    exponents: Sequence[float],
    plot: Path,
) -> None:
    """Measure each p* at each s* on class folders, on Holidays, or both; print and draw the figures.

    Raises:
        UserError: Neither set is given, or one is not what it should be.
    """
    roots = {"class_folders": classes, "holidays": holidays}
    given = {name: root for name, root in roots.items() if root is not None}
    if not given:
        raise UserError("nothing to measure p* on: give --classes DIR, --holidays DIR, or both.")
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for name, root in given.items():
        for size in sizes:
            for exponent in exponents:
                view = open_view(checkpoint, size)
                view.descriptor.pool_with(exponent)
                figures = EVALUATIONS[name](view, Source(checkpoint, root, None))
                figure = next(key for key in ("top-1", "mAP", "Recall@1") if key in figures)
                x, y = panels.setdefault(f"{figure}, {root.name}", {}).setdefault(f"s* {size}", ([], []))
                x.append(exponent)
                y.append(figures[figure])
                print(f"{root.name}: s* {size}, p* {exponent:g}: {figure} {figures[figure]:.4f}", flush=True)
    draw_lines(panels, "p*", plot)
