"""The table of variants that step 06 prints."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

NOTICES = "notices"  # key in scores.json of sentences that name stages whose result depends on the machine's speed


def print_scores(path: Path) -> None:
    """Print the variants of a `scores.json` as a table, the submitted one in bold, and its notices below."""
    scores = json.loads(path.read_text(encoding="utf-8"))
    table = Table(title=f"{scores['queries']} queries, {scores['references']} references, {scores['true_pairs']} copies")
    for column in ("variant", "µAP", "recall at P90", "recall at rank 1"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for row in scores["variants"]:
        figures = (row["micro_average_precision"], row["recall_at_precision_90"], row["recall_at_rank_1"])
        table.add_row(row["name"], *(f"{figure:.3f}" for figure in figures), style="bold" if row["submitted"] else None)
    console = Console(width=100)
    console.print(table)
    if scores.get("synthetic"):  # not in scores from before
        console.print(_synthetic_table(scores["synthetic"]))
    for notice in scores.get(NOTICES, []):
        print(notice)
    for warning in scores.get("warnings", []):
        console.print(f"warning: {warning}", style="bold red", markup=False, highlight=False)


def _synthetic_table(rows: list[dict[str, Any]]) -> Table:
    """µAP on the synthetic queries, of all and, where families of edits were left out of training, of both halves."""
    columns = [name for name in ("micro_average_precision", "learnt_families", "left_out_families") if name in rows[0]]
    table = Table("on the synthetic queries", title="what the variant was chosen on")
    for name in columns:
        table.add_column("µAP" if name == "micro_average_precision" else f"µAP, {name.replace('_', ' ')}", justify="right")
    for row in rows:
        label = row["name"] if row["kind"] == row["name"] else f"{row['kind']}: {row['name']}"
        style = "bold" if row["kind"] == "submitted" else None
        table.add_row(label, *(f"{row[column]:.3f}" for column in columns), style=style)
    return table
