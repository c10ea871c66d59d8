"""Figures of the papers, drawn from checkpoints and curves; none of them is measured here on the papers' own data.

figures.py exponents --checkpoint FILE --classes DIR --holidays DIR --plot F.png     MultiGrain, figures 4a, 4b: p* by size
figures.py curves CURVE.csv … --columns watched_top1 --plot F.png                    MultiGrain, figures A.1 and D.1, by epoch
figures.py spread --run DIR --set cub --root DIR --plot F.png                        SVMax, figure A9: s by batch size
figures.py domains --recipe FILE --set cars --root DIR --output DIR --plot F.png     IDEAL, figure 2: R@1 of each domain by epoch

A curve's watched columns come from `watch: DIR` of a recipe. --set is cub, cars, online_products or class_folders, of which every
second class is taken for testing.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# whose file of measurements the claims' modules need
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from claim_rows.ideal import ROTATIONS, measure_domains
from claim_rows.training import select_classes

from image_copies.data.errors import UserError
from image_copies.data.labels import read_class_folders
from image_copies.data.readers import TrainTest, read_cars, read_cub, read_online_products
from image_copies.models.device import best_device
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import open_existing_run
from image_copies.pipeline.tools.evaluate import EVALUATIONS, Source
from image_copies.submissions.scoring.retrieval import mean_singular_value

READERS = {"cub": read_cub, "cars": read_cars, "online_products": read_online_products}
OVERLAYS = 8  # images that edits may paste
# of IDEAL's figure 2: the source domain, the ensemble, and another domain
PANELS = (ROTATIONS[0], "joined", ROTATIONS[1])
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]  # by name, x and y


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    figures = parser.add_subparsers(dest="figure", required=True)
    exponents, curves, spread, domains = (
        figures.add_parser(name) for name in ("exponents", "curves", "spread", "domains")
    )
    for figure in (exponents, curves, spread, domains):
        figure.add_argument("--plot", type=Path, metavar="FILE.png", required=True)
    for figure in (spread, domains):
        figure.add_argument(
            "--set", dest="data_set", choices=(*READERS, "class_folders"), default="class_folders"
        )
        figure.add_argument("--root", type=Path, metavar="DIR", required=True)
    exponents.add_argument("--checkpoint", type=Path, metavar="FILE", required=True)
    exponents.add_argument(
        "--classes", type=Path, metavar="DIR", help="class folders: top-1, or R@1 without a classifier"
    )
    exponents.add_argument("--holidays", type=Path, metavar="DIR", help="INRIA Holidays: mAP")
    exponents.add_argument("--sizes", type=int, nargs="+", default=[224, 320, 500, 800])
    exponents.add_argument("--exponents", type=float, nargs="+", default=[1, 2, 3, 4, 5, 7, 10])
    curves.add_argument("curves", type=Path, nargs="+", metavar="CURVE.csv")
    curves.add_argument("--columns", nargs="+", default=["watched_top1"])
    spread.add_argument("--run", type=Path, metavar="DIR", required=True)
    domains.add_argument("--recipe", type=Path, metavar="FILE", required=True)
    domains.add_argument(
        "--output", type=Path, metavar="DIR", required=True, help="where the trainings are kept; they resume"
    )
    return parser


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
                raise UserError(
                    f"{curve} has no column {column}: watched ones come from `watch: DIR` in the recipe."
                )
            panels[column][curve.parent.name] = list(range(1, len(values) + 1)), values
    draw_lines(panels, "epoch", plot, marker="")


def draw_domains(recipe: Path, data_set: str, root: Path, output: Path, plot: Path) -> None:
    """Train the models of a recipe, watch R@1 of the test classes in each domain, and draw IDEAL's figure 2.

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


def draw_spread(run: Path, data_set: str, root: Path, plot: Path) -> None:
    """Embed the test classes with each trained model of a run; print and draw s by batch size, a line for each loss and form.

    Raises:
        UserError: The run or the data set cannot be read, or a model has not been trained.
    """
    opened, test = open_existing_run(run), read_set(data_set, root).test
    found: dict[str, dict[int, float]] = {}
    upper = 0.0
    for name, model in opened.recipe.trained_models.items():
        s, _, upper = mean_singular_value(embed_view(open_view(opened.checkpoint(name)), test.images))
        batch = model.stages[-1].batch_size
        found.setdefault(name_line(model), {})[batch] = s
        print(f"{name}: b {batch}, s {s:.3f}, at most {upper:.3f}", flush=True)
    lines = {
        name: (sorted(of_batch), [of_batch[batch] for batch in sorted(of_batch)])
        for name, of_batch in found.items()
    }
    batches = sorted({batch for x, _ in lines.values() for batch in x})
    bound = {"upper bound": (batches, [upper] * len(batches))}
    draw_lines({"s of the test vectors": lines | bound}, "b", plot)


def name_line(model: ModelSettings) -> str:
    """Return the loss, the network and the regulariser of a model in words."""
    regulariser = "alone" if model.svmax is None else f"with SVMax, {model.svmax.form}"
    return (
        f"{model.objective.kind}, {model.descriptor.backbone}, d {model.descriptor.dimensions}, {regulariser}"
    )


def read_set(data_set: str, root: Path) -> TrainTest:
    """Read a data set with classes in two parts; of class folders every second class is for testing."""
    if data_set in READERS:
        return READERS[data_set](root)
    found = read_class_folders(root)
    return TrainTest(*(select_classes(found, range(first, len(found.names), 2)) for first in (0, 1)))


def open_view(checkpoint: Path, size: int | None = None) -> View:
    """Open a network; it shows images as evaluate.py does by default, at the training size where none is given."""
    found = load_descriptor(checkpoint)
    descriptor = require_trained_network(found, checkpoint).eval().to(best_device())
    size = size or found.image_size
    return View(descriptor, size, "center_crop" if size <= found.image_size else "long_side")


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and draw the figure."""
    options = vars(make_parser().parse_args(arguments))
    draw: dict[str, Callable[..., None]] = {
        "exponents": draw_exponents,
        "curves": draw_curves,
        "spread": draw_spread,
        "domains": draw_domains,
    }
    draw[options.pop("figure")](**options)


if __name__ == "__main__":
    with report_errors():
        main()
