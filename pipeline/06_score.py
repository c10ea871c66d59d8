"""Step 06: score the run's variants beside two baselines and write the report, or score any submission.

Under torchrun the references of a --submission are shared out over processes, with the same result bit by bit.
"""

import argparse
import json
from pathlib import Path

from data.errors import UserError
from data.layout import open_isc_folder
from pipeline.stage import Run, clear_errors, command_line, open_run, require, run_step, write_text


def score_run(run: Run, options: argparse.Namespace) -> None:
    submission = require(run.folder / "submission.h5", "05_submit", run)
    data = open_isc_folder(run.data)
    if data.ground_truth is None:
        print(f"{run.data} has no public_ground_truth.csv, so there is no score. The submission: {submission}")
        return
    scores, report = run.folder / "scores.json", run.folder / "report" / "index.html"
    run_step(
        run,
        "06_score",
        outputs=[scores, report],
        inputs={
            "submission": submission,
            "ground truth": data.ground_truth,
            "edits": data.query_edits,
            "choice": run.folder / "ensemble" / "choice.csv",
        },
        parameters={"baselines": run.recipe.baselines, "normalization": run.recipe.normalization},
        work=lambda: _score_run(run),
        force=options.force,
    )
    _print_table(json.loads(scores.read_text(encoding="utf-8")))
    print(f"\nsubmission: {submission}\nscores:     {scores}\nreport:     {report}")


def _score_run(run: Run) -> None:
    # imported here: an up-to-date step must return at once
    from pipeline.scoring import score_variants

    score_variants(run)


def _print_table(scores: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{scores['queries']} queries, {scores['references']} references, {scores['true_pairs']} copies")
    for column in ("variant", "µAP", "recall at P90", "recall at rank 1"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for row in scores["variants"]:
        figures = (row["micro_average_precision"], row["recall_at_precision_90"], row["recall_at_rank_1"])
        table.add_row(row["name"], *(f"{figure:.3f}" for figure in figures), style="bold" if row["submitted"] else None)
    Console(width=100).print(table)


def score_file(options: argparse.Namespace) -> None:
    """Score one file and print, or write, the figures as JSON."""
    from data.ground_truth import read_ground_truth
    from pipeline.scoring import ranked_file, write_details

    truth = read_ground_truth(options.ground_truth)
    scores, ranked = ranked_file(options.submission, truth)
    text = json.dumps(scores.as_dict(), indent=1)
    print(text)
    if options.output is not None:
        write_text(options.output, text + "\n")
    if options.details is not None:
        write_details(options.details, ranked, truth, options.edits)
        print(f"details: {options.details}")


def compare_files(options: argparse.Namespace) -> None:
    """The difference in µAP of two submissions, with its interval."""
    from data.ground_truth import read_ground_truth
    from pipeline.scoring import ranked_file
    from submissions.bootstrap import difference_interval, micro_average_precision_interval

    truth = read_ground_truth(options.ground_truth)
    first, second = (ranked_file(path, truth)[1] for path in options.compare)
    for path, each in zip(options.compare, (first, second), strict=True):
        own = micro_average_precision_interval(each, truth)
        print(f"{path}: µAP {own.value:.4f} (95 % of bootstrap draws {own.low:.4f} to {own.high:.4f})")
    gap = difference_interval(first, second, truth)
    print(f"second minus first: {gap.value:+.4f} (95 % of bootstrap draws {gap.low:+.4f} to {gap.high:+.4f})")


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--submission", type=Path, metavar="FILE", help="score this .h5, or matching track's .csv")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE", help="difference of two submissions, with its interval")
    parser.add_argument("--ground-truth", type=Path, metavar="CSV", help="query_id,reference_id; needed with files")
    parser.add_argument("--output", type=Path, metavar="JSON", help="also write the figures of --submission here")
    parser.add_argument("--details", type=Path, metavar="DIR", help="with --submission: precision-recall, recall by edit")
    parser.add_argument("--edits", type=Path, metavar="CSV", help="query_id,edits; for --details")
    parser.add_argument("--index", metavar="FACTORY", help="only build this Faiss index of a run, print its recall")
    arguments = parser.parse_args()
    with clear_errors():
        if arguments.index is not None:
            # imported here: an up-to-date step must return at once
            from pipeline.indexing import print_index_recall

            print_index_recall(open_run(arguments), arguments.index)
        elif arguments.submission is None and arguments.compare is None and arguments.ground_truth is None:
            score_run(open_run(arguments), arguments)
        elif arguments.ground_truth is None or (arguments.submission is None) == (arguments.compare is None):
            raise UserError(
                "--submission (or --compare) and --ground-truth belong together: give both, or neither to score a run."
            )
        elif arguments.compare is not None:
            compare_files(arguments)
        else:
            score_file(arguments)
