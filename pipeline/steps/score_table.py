"""The table of variants that step 06 prints."""

import json
from pathlib import Path

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
    Console(width=100).print(table)
    for notice in scores.get(NOTICES, []):
        print(notice)
