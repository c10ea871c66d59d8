"""Step 06: score the run's variants beside two baselines and write the report, or score any submission.

Under torchrun the references of a --submission are shared out over processes, with the same result bit by bit.
"""

import argparse

from data.errors import UserError
from pipeline.run.cli import chosen_run, named_path, report_errors, step_parser
from pipeline.run.paths import SETS
from pipeline.run.run import Run
from pipeline.steps.definitions import SCORE, has_ground_truth, run_step


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = step_parser(__doc__)
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
    parser.add_argument("--subsets", action="store_true", help="only score every subset of the run's models, as an ensemble")
    return parser


def check(options: argparse.Namespace) -> None:
    """Refuse options that make no sense together."""
    if options.nprobe is not None and (options.index is None or options.nprobe < 1):
        raise UserError(f"--nprobe {options.nprobe}: a number from 1 on, together with --index.")
    if options.subsets and any((options.index, options.compare, options.submission)):
        raise UserError("--subsets is of a run's own models: leave out --index, --compare and --submission.")
    if options.index is not None:
        return
    if options.compare is not None:
        if options.submission is not None:
            raise UserError("--compare names what is compared itself: leave out --submission.")
    elif (options.submission is None) != (options.ground_truth is None):
        raise UserError("--submission and --ground-truth belong together: give both, or neither to score a run.")


def score(options: argparse.Namespace) -> None:
    """Do what the options ask for; what each imports is imported here, as an up-to-date step must return at once."""
    if options.subsets:
        from pipeline.steps.subsets import print_subsets

        run = chosen_run(options)
        for part in SETS:
            for model in run.recipe.models:
                run.require(run.paths.embeddings(model, part))
        run.require(run.paths.choice)
        print_subsets(run)
    elif options.index is not None:
        from pipeline.steps.approximate_recall import print_index_recall

        print_index_recall(chosen_run(options), options.index, options.nprobe, options.force)
    elif options.compare is not None:
        from pipeline.steps.compare import compare

        others = len(options.compare) == 1
        compare(
            paths=[*options.compare, chosen_run(options).folder] if others else options.compare,
            data=options.data,
            ground_truth=options.ground_truth,
            edits=options.edits,
            report=options.report,
        )
    elif options.submission is not None:
        from pipeline.steps.score import score_file

        score_file(options.submission, options.ground_truth, options.output, options.details, options.edits)
    else:
        score_run(chosen_run(options), options.force)


def score_run(run: Run, force: bool) -> None:
    """Do step 06 where the data set has a ground truth, and print its table."""
    run_step(run, SCORE, force)
    if not has_ground_truth(run):
        print(f"{run.data} has no public_ground_truth.csv, so there is no score. The submission: {run.paths.submission}")
        return
    # imported here: the table of an up-to-date run needs nothing else
    from pipeline.steps.score_table import print_scores

    print_scores(run.paths.scores)
    print(f"\nsubmission: {run.paths.submission}\nscores:     {run.paths.scores}\nreport:     {run.paths.report_page}")


if __name__ == "__main__":
    arguments = make_parser().parse_args()
    with report_errors():
        check(arguments)
        score(arguments)
