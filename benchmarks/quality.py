"""Scores of a descriptor on a set in the ISC2021 layout: µAP and recalls, raw and normalised, by edit, and of baselines.

python benchmarks/quality.py DIR [DIR …]                     the descriptor that ships
python benchmarks/quality.py DIR --checkpoint FILE           another one
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import GROUND_TRUTH, QUERY_EDITS, IscFolder, open_isc_folder
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.steps.score import score_baselines
from image_copies.submissions.scoring.bootstrap import micro_average_precision_interval
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors

FALSE_ALARMS = 0.001  # per query, expected at the threshold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--checkpoint", type=Path, default=SHIPPED, metavar="FILE")
    options = parser.parse_args()
    extractor = checkpoint_extractor(options.checkpoint)
    console = Console(width=110)
    for root in options.sets:
        folder, truth = open_isc_folder(root), read_ground_truth(root / GROUND_TRUTH)
        queries, references = extractor.extract_all(folder.query), extractor.extract_all(folder.reference)
        moved = Vectors(queries.ids, extractor.normalize(queries.vectors), queries.unreadable)
        variants = {"raw": queries} | ({"queries normalised": moved} if extractor.normalizer else {})
        console.print(make_score_table(str(root), variants, references, truth))
        console.print(make_baseline_table(folder, truth))
        tail = extractor.calibrate()
        threshold = tail.threshold(FALSE_ALARMS, len(references)) if tail else None
        if (root / QUERY_EDITS).is_file():
            console.print(make_edit_table(root / QUERY_EDITS, moved, references, truth, threshold))


def make_score_table(title: str, variants: dict[str, Vectors], references: Vectors, truth: GroundTruth) -> Table:
    table = Table("vectors", "µAP", "95 % interval", "R@P90", "R@1", "R@10", title=title)
    for name, queries in variants.items():
        scores, ranked = evaluate(queries, references, truth)
        interval = micro_average_precision_interval(ranked, truth)
        found = (scores.recall_at_precision_90, scores.recall_at_rank_1, scores.recall_at_rank_10)
        bounds = f"{interval.low:.3f} – {interval.high:.3f}"
        table.add_row(name, f"{scores.micro_average_precision:.3f}", bounds, *(f"{value:.3f}" for value in found))
    return table


def make_baseline_table(folder: IscFolder, truth: GroundTruth) -> Table:
    """The baselines without learning, as step 06 scores them: whitened on the folder's training images."""
    table = Table("baseline", "µAP", "95 % interval", "R@P90", "R@1", "R@10")
    for row in score_baselines(folder, truth):
        found = (row.scores.recall_at_precision_90, row.scores.recall_at_rank_1, row.scores.recall_at_rank_10)
        bounds = f"{row.interval.low:.3f} – {row.interval.high:.3f}"
        name = row.name.removeprefix("baseline: ")
        table.add_row(name, f"{row.scores.micro_average_precision:.3f}", bounds, *(f"{value:.3f}" for value in found))
    return table


def make_edit_table(edits: Path, queries: Vectors, references: Vectors, truth: GroundTruth, threshold: float | None) -> Table:
    """Share of copies with each edit whose original ranks first, and share that also lies within the threshold."""
    squares = (queries.vectors**2).sum(1)[:, None] + (references.vectors**2).sum(1) - 2 * queries.vectors @ references.vectors.T
    nearest = squares.argmin(axis=1)
    own = dict(truth.pairs)
    rows = pd.DataFrame({"query_id": queries.ids, "found": [references.ids[row] for row in nearest]})
    rows["copy"] = rows["query_id"].isin(list(own))
    rows["first"] = rows["found"] == rows["query_id"].map(own)
    rows["near"] = squares[np.arange(len(nearest)), nearest] <= (-np.inf if threshold is None else threshold)
    rows["reported"] = rows["first"] & rows["near"]
    wrong = int((rows["near"] & ~rows["first"]).sum())
    table = Table("edit", "copies", "ranks first", "above the threshold", title=f"{wrong} of {len(rows)} queries matched wrongly")
    table.add_row("any", str(int(rows["copy"].sum())), *_shares(rows[rows["copy"]]))
    listed = pd.read_csv(edits, keep_default_na=False)
    by_edit = rows[rows["copy"]].merge(listed.assign(edit=listed["edits"].str.split()).explode("edit"), on="query_id")
    for edit, part in sorted(by_edit.groupby("edit"), key=lambda item: -float(item[1]["first"].mean())):
        table.add_row(str(edit), str(len(part)), *_shares(part))
    return table


def _shares(rows: pd.DataFrame) -> list[str]:
    return [f"{rows[column].mean():.2f}" for column in ("first", "reported")]


if __name__ == "__main__":
    main()
