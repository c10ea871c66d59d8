"""The tables that step 06 prints: the variants, and what was chosen on the synthetic queries."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from image_copies.submissions.ensemble.synthetic_columns import title_columns


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
