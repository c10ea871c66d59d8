"""What step 06 prints and shows of a run beside its scores: read from what the steps wrote, free of torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from image_copies.data.files import open_regular, read_json
from image_copies.data.layout import IscFolder
from image_copies.submissions.ensemble.variant import TITLES, read_choice
from image_copies.submissions.report.inputs import StepDone

from ..run.run import Run
from ..run.step import code_version, versions


def read_synthetic(choice: Path) -> dict[str, float]:
    """Return µAP of the chosen variant on the synthetic queries by title, of both halves too; {} of a run that had no choice.

    Raises:
        UserError: There is no table of candidates, or the file is none.
    """
    best = read_choice(choice)[1].iloc[0]
    return {
        title: float(best[column])
        for column, title in TITLES.items()
        if column in best and pd.notna(best[column])
    }


def read_curve(path: Path) -> pd.DataFrame:
    """Read a model's learning curve, a row per epoch; empty if there is none."""
    try:
        with open_regular(path) as file:
            return pd.read_csv(file)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return pd.DataFrame()


def collect_warnings(run: Run) -> list[str]:
    """What the trainings warned of."""
    found = []
    for name in run.recipe.models:
        curve = read_curve(run.paths.curve(name))
        if len(curve):
            found += [f"{name}: {text}" for text in curve["warning"].dropna()]
    return found


def print_scores(path: Path) -> None:
    """Print the variants of a `scores.json` as a table, the submitted one in bold, and its warnings below."""
    scores = json.loads(path.read_text(encoding="utf-8"))
    table = Table(
        title=f"{scores['queries']} queries, {scores['references']} references, {scores['true_pairs']} copies"
    )
    for column in ("variant", "µAP", "recall at P90", "recall at rank 1"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for row in scores["variants"]:
        figures = (row["micro_average_precision"], row["recall_at_precision_90"], row["recall_at_rank_1"])
        table.add_row(
            row["name"],
            *(f"{figure:.3f}" for figure in figures),
            style="bold" if row["submitted"] else None,
        )
    Console(width=100).print(table)
    print_unscored(scores["synthetic"], scores["warnings"])


def print_unscored(synthetic: Mapping[str, float], warnings: list[str]) -> None:
    """Print what is known of a run without a ground truth: µAP on the synthetic queries by title, and warnings."""
    if synthetic:
        figures = ", ".join(f"{title} {figure:.3f}" for title, figure in synthetic.items())
        print("on the synthetic queries, by which the variant was chosen:", figures)
    console = Console(width=100)
    for warning in warnings:
        console.print(f"warning: {warning}", style="bold red", markup=False, highlight=False)


def describe_run(run: Run, data: IscFolder, warnings: list[str]) -> dict[str, Any]:
    """Return the fields of the report's RunInputs by name."""
    steps, used = read_steps(run.paths.manifests)
    return {
        "title": run.folder.name,
        "queries": data.query,
        "references": data.reference,
        "edits_file": data.query_edits,
        "recipe": run.paths.recipe.read_text(encoding="utf-8"),
        "code": code_version(),
        "curves": {name: read_curve(run.paths.curve(name)) for name in run.recipe.models},
        "steps": steps,
        "versions": used,
        "warnings": warnings,
        "synthetic": read_synthetic(run.paths.choice),
    }


def read_steps(manifests: Path) -> tuple[list[StepDone], dict[str, str]]:
    """Read the products of the steps before 06 from their manifests, and the versions of each package, joined by "and"."""
    steps = []
    used = {name: {number} for name, number in versions().items()}
    # next to them what a kill left unfinished, its name begins with a dot
    known = manifests.iterdir() if manifests.is_dir() else ()
    for path in sorted(
        path for path in known if path.suffix == ".json" and not path.name.startswith((".", "06_score"))
    ):
        record = read_json(path)
        steps.append(StepDone(path.stem, record.get("seconds"), str(record.get("code", ""))))
        for name, number in record.get("versions", {}).items():
            used.setdefault(name, set()).add(number)
    return steps, {name: " and ".join(sorted(numbers)) for name, numbers in used.items()}
