"""What step 06 prints, and what a run is to be warned of: read from what steps 01, 03 and 06 wrote, free of torch."""

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from image_copies.data.errors import UserError
from image_copies.data.files import open_regular
from image_copies.pipeline.run.run import Run
from image_copies.submissions.ensemble.variant import MEAN, title_columns

SUBMITTED, ENSEMBLE, MODEL, BASELINE = "submitted", "ensemble", "model", "baseline"  # kinds of the table's rows
REMEDY = (
    "give the stages more epochs, begin with fewer classes and weaker edits, start from weights (descriptor.weights), or join "
    "`gabor: {kind: gabor}` to the models"
)

JOINING = (
    "let the synthetic queries choose: give ensemble.eigen_power 0.0, normalization.methods none, and ensemble.weights 0 of the "
    "other models among the candidates"
)


def read_synthetic_board(path: Path) -> pd.DataFrame:
    """Return the table that `write_synthetic_board` wrote, best first.

    Raises:
        UserError: There is none, or the file is no such table.
    """
    try:
        with open_regular(path) as file:
            return pd.read_csv(file).sort_values(MEAN, ascending=False, kind="stable")
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} is not the table that step 03 wrote ({error!r}). Delete it and do step 03 again.") from error


def find_warnings(board: pd.DataFrame, models: Container[str]) -> list[str]:
    """What beats the submission, or without training a trained model, and what to try.

    A baseline that is one of the recipe's `models` makes up for the others: these are not compared with it.
    """
    rows = board.to_dict("records")
    baselines = [row for row in rows if row["kind"] == BASELINE]
    better = {
        SUBMITTED: baselines + [row for row in rows if row["kind"] == MODEL],
        MODEL: [row for row in baselines if row["name"] not in models],
    }
    warnings = []
    for row in rows:
        best = max(better.get(row["kind"], []), key=lambda other: float(other[MEAN]), default=row)
        if float(row[MEAN]) < float(best[MEAN]):
            what = "the submission" if row["kind"] == SUBMITTED else f"the model {row['name']}"
            than = f"the model {best['name']} alone" if best["kind"] == MODEL else f"{best['name']} without any training"
            warnings.append(
                f"{what} has a µAP of {row[MEAN]:.3f} on the synthetic queries, less than {than} "
                f"({best[MEAN]:.3f}): {JOINING if best['kind'] == MODEL else REMEDY}."
            )
    return sorted(warnings, key=lambda text: not text.startswith("the submission"))


def read_curve(path: Path) -> pd.DataFrame:
    """Read a model's learning curve, a row per epoch; empty if there is none."""
    try:
        with open_regular(path) as file:
            return pd.read_csv(file)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return pd.DataFrame()


def collect_warnings(run: Run) -> list[str]:
    """What step 03 and the trainings warned of, the submission first."""
    found = find_warnings(read_synthetic_board(run.paths.synthetic_board), run.recipe.models)
    for name in run.recipe.models:
        curve = read_curve(run.paths.curve(name))
        if len(curve):
            found += [f"{name}: {text}" for text in curve["warning"].dropna()]
    return found


def print_scores(path: Path) -> None:
    """Print the variants of a `scores.json` as a table, the submitted one in bold, and its warnings below."""
    scores = json.loads(path.read_text(encoding="utf-8"))
    table = Table(title=f"{scores['queries']} queries, {scores['references']} references, {scores['true_pairs']} copies")
    for column in ("variant", "µAP", "recall at P90", "recall at rank 1"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for row in scores["variants"]:
        figures = (row["micro_average_precision"], row["recall_at_precision_90"], row["recall_at_rank_1"])
        table.add_row(row["name"], *(f"{figure:.3f}" for figure in figures), style="bold" if row["submitted"] else None)
    console = Console(width=100)
    console.print(table)
    print_unscored(scores.get("synthetic", []), scores.get("warnings", []))  # not in scores from before


def print_unscored(synthetic: Sequence[Mapping[Any, Any]], warnings: list[str]) -> None:
    """Print what is known of a run without a ground truth: its figures on the synthetic queries, and warnings.

    The rows are those of the table that step 03 wrote, best first.
    """
    console = Console(width=100)
    if synthetic:
        Console(width=max(100, 11 * len(title_columns(map(str, synthetic[0]))) + 23)).print(_synthetic_table(synthetic))
        if not any(row["kind"] == "baseline" for row in synthetic):
            print("no baselines on the synthetic queries (baselines: false?): a submission below them is not warned of")
    for warning in warnings:
        console.print(f"warning: {warning}", style="bold red", markup=False, highlight=False)


def _synthetic_table(rows: Sequence[Mapping[Any, Any]]) -> Table:
    """µAP on the synthetic queries, of all and, where families were left out of training, of both halves and of each alone."""
    columns = title_columns(map(str, rows[0]))
    table = Table(title="what the variant was chosen on: µAP on the synthetic queries")
    table.add_column("", no_wrap=True)
    for title in columns.values():
        table.add_column(title, justify="right")
    for row in rows:
        label = row["name"] if row["kind"] == row["name"] else f"{row['kind']}: {row['name']}"
        style = "bold" if row["kind"] == "submitted" else None
        table.add_row(label, *(f"{row[column]:.3f}" for column in columns), style=style)
    return table
