"""Columns of learning curves by epoch (MultiGrain, figures A.1 and D.1), and IDEAL's figure 2, whose curves are trained here."""

from collections.abc import Sequence
from pathlib import Path

from claim_rows.domains import ROTATIONS, measure_domains
from drawn.charts import draw_lines
from drawn.sets import read_set

from image_copies.data.errors import UserError
from image_copies.models.training.curve import read_rows
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.recipe import read_recipe

OVERLAYS = 8  # images that edits may paste
PANELS = (ROTATIONS[0], "joined", ROTATIONS[1])  # of figure 2: the source domain, the ensemble, and another domain


def draw_curves(curves: Sequence[Path], columns: Sequence[str], plot: Path) -> None:
    """Draw a chart for each column, a line for each curve.csv, by epoch.

    Raises:
        UserError: A curve lacks a column.
    """
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {column: {} for column in columns}
    for curve in curves:
        rows = [row for row in read_rows(curve.parent) if row["stage"] != "0"]
        for column in columns:
            values = [float(row[column]) for row in rows if row.get(column)]
            if not values:
                raise UserError(f"{curve} has no column {column}: watched ones come from `watch: DIR` in the recipe.")
            panels[column][curve.parent.name] = list(range(1, len(values) + 1)), values
    draw_lines(panels, "epoch", plot, marker="")


def draw_domains(recipe: Path, data_set: str, root: Path, output: Path, plot: Path) -> None:
    """Train the models of a recipe, watch R@1 of the test classes in each domain, and draw figure 2.

    Raises:
        UserError: The recipe or the data cannot be read, or a training fails.
    """
    data, chosen = read_set(data_set, root), read_recipe(recipe)
    overlays = data.test.images.select(data.test.images.ids[:OVERLAYS])
    folders = [output / name for name in chosen.trained_models]
    for folder, model in zip(folders, chosen.trained_models.values(), strict=True):
        Trainer(
            model,
            data.train.images,
            overlays,
            folder,
            output / "cache",
            chosen.seed,
            watch=lambda descriptor, size, _: measure_domains(descriptor.eval(), data.test, size),
            labels=data.train.labels,
        ).train()
    draw_curves([folder / "curve.csv" for folder in folders], PANELS, plot)
