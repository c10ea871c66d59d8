"""Step 06: score the run's variants beside two baselines and write the report, or score any submission.

Under torchrun the references of a --submission are shared out over processes, with the same result bit by bit.
"""

import argparse
import json
from typing import Any

from data.errors import UserError
from data.layout import open_isc_folder
from pipeline.run.paths import named_path
from pipeline.run.stage import Run, clear_errors, command_line, open_run, require, run_step, write_text
from pipeline.run.staleness import step_parameters, tell_stale


def score_run(run: Run, options: argparse.Namespace) -> None:
    submission = require(run.folder / "submission.h5", "05_submit", run)
    tell_stale(run, "06_score")
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
        parameters=step_parameters(run.recipe)["06_score"],
        work=lambda: _score_run(run),
        force=options.force,
    )
    _print_table(json.loads(scores.read_text(encoding="utf-8")))
    print(f"\nsubmission: {submission}\nscores:     {scores}\nreport:     {report}")


def _score_run(run: Run) -> None:
    # imported here: an up-to-date step must return at once
    from pipeline.steps.score import score_variants

    score_variants(run)


def _print_table(scores: dict[str, Any]) -> None:
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
    from pipeline.steps.score import ranked_file, write_details

    truth = read_ground_truth(options.ground_truth)
    scores, ranked = ranked_file(options.submission, truth)
    text = json.dumps(scores.as_dict(), indent=1)
    print(text)
    if options.output is not None:
        write_text(options.output, text + "\n")
    if options.details is not None:
        write_details(options.details, ranked, truth, options.edits)
        print(f"details: {options.details}")


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--submission", type=named_path, metavar="FILE", help="score this .h5, or matching track's .csv")
    parser.add_argument(
        "--compare",
        type=named_path,
        nargs="+",
        metavar="OTHER",
        help="report what the run won and lost against this run or file, or the second against the first",
    )
    parser.add_argument(
        "--report", type=named_path, metavar="DIR", help="with --compare: where its page goes, if not into the run"
    )
    parser.add_argument("--ground-truth", type=named_path, metavar="CSV", help="query_id,reference_id; needed with files alone")
    parser.add_argument("--output", type=named_path, metavar="JSON", help="also write the figures of --submission here")
    parser.add_argument("--details", type=named_path, metavar="DIR", help="with --submission: precision-recall, recall by edit")
    parser.add_argument("--edits", type=named_path, metavar="CSV", help="query_id,edits; for --details, --compare")
    parser.add_argument("--index", metavar="FACTORY", help="only keep the run's references in this Faiss index, print its recall")
    parser.add_argument("--nprobe", type=int, metavar="N", help="with --index: lists a query looks into; √lists if not given")
    arguments = parser.parse_args()
    with clear_errors():
        if arguments.nprobe is not None and (arguments.index is None or arguments.nprobe < 1):
            raise UserError(f"--nprobe {arguments.nprobe}: a number from 1 on, together with --index.")
        if arguments.index is not None:
            # imported here: an up-to-date step must return at once
            from pipeline.steps.approximate_recall import print_index_recall

            print_index_recall(open_run(arguments), arguments.index, arguments.nprobe, arguments.force)
        elif arguments.compare is not None:
            if arguments.submission is not None:
                raise UserError("--compare names what is compared itself: leave out --submission.")
            # imported here: an up-to-date step must return at once
            from pipeline.steps.compare import compare

            compare(arguments)
        elif arguments.submission is None and arguments.ground_truth is None:
            score_run(open_run(arguments), arguments)
        elif arguments.submission is None or arguments.ground_truth is None:
            raise UserError("--submission and --ground-truth belong together: give both, or neither to score a run.")
        else:
            score_file(arguments)
