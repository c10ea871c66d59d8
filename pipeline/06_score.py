"""Step 06: score the run's variants and write the report, or score any submission or vectors.

Without public_ground_truth.csv in the data set, the report shows what is known without it, and suggests copies.

With --ray, the references are searched by the workers of a Ray cluster, with a bit-identical result.
"""

import argparse
from collections.abc import Sequence

from image_copies.data import commands, files, targets
from image_copies.data.errors import UserError
from image_copies.pipeline.cluster import add_ray_options, use_ray
from image_copies.pipeline.run import cli
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.definitions import SCORE, has_ground_truth, run_step

DETAILS = {  # the files that --details writes, and how each begins
    "precision_recall.csv": b"rank,squared_distance,",
    "recall_by_edit.csv": b"edit,copies,",
}
OPTIONS: cli.Table = {
    "--submission": cli.FILE | {"help": "score this submission (.h5) or matching-track file (.csv)"},
    "--queries": cli.FILE | {"help": "score these vectors, of any dimension, without a run"},
    "--references": cli.FILE | {"help": "with --queries: the vectors of the references"},
    "--training": cli.FILE | {"help": "with --queries: normalise them against these vectors first"},
    "--dimensions": {"type": cli.at_least(1), "metavar": "D"}
    | {"help": "with --training: reduce all to D dimensions by their PCA before"},
    "--compare": cli.FILE
    | {"nargs": "+", "metavar": "OTHER"}
    | {
        "help": "what the run gains over this run or file in µAP, with its interval; given two, the second over the first"
    },
    "--ground-truth": cli.FILE
    | {"metavar": "CSV", "help": "query_id,reference_id; needed where only files are given"},
    "--output": cli.FILE
    | {"metavar": "JSON", "help": "with --submission or --queries: write the scores here, too"},
    "--json": {"action": "store_true", "help": "with --submission or --queries: print JSON, not lines"},
    "--details": cli.DIR | {"help": "with --submission: folder for precision-recall and recall by edit"},
    "--edits": cli.FILE | {"metavar": "CSV", "help": "with --details: query_id,edits"},
}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = cli.make_step_parser(__doc__, commands.name_command("06_score"))
    cli.add_options(parser, OPTIONS, OPTIONS)
    add_ray_options(parser)
    return parser


def check(options: argparse.Namespace) -> None:
    """Reject options that do not go together.

    Raises:
        UserError: when options contradict each other or a value is out of range.
    """
    _check_targets(options)
    if options.dimensions is not None and options.training is None:
        raise UserError("--dimensions is given together with --training FILE, on which the PCA is fitted.")
    if options.queries is not None or options.references is not None:
        if None in (options.queries, options.references, options.ground_truth):
            raise UserError(
                "vectors are scored with all three of --queries FILE, --references FILE and --ground-truth CSV."
            )
        if options.submission is not None or options.compare is not None or options.details is not None:
            raise UserError(
                "--queries goes with --references, --ground-truth, --training and --output alone: omit the others."
            )
        return
    if options.training is not None:
        raise UserError("--training normalises --queries FILE: give them, too.")
    if options.compare is not None:
        if options.submission is not None:
            raise UserError("--compare takes the runs or files to compare itself: omit --submission.")
    elif (options.submission is None) != (options.ground_truth is None):
        raise UserError(
            "--submission and --ground-truth must be given together; give neither to score a run."
        )


def _check_targets(options: argparse.Namespace) -> None:
    if options.output is not None:
        targets.check_target(
            options.output, "--output", {".json": lambda path: "made_from" in files.read_json(path)}
        )
    if options.details is not None:
        for name, start in DETAILS.items():
            targets.check_target(
                options.details / name, "--details", {".csv": targets.begins_with(start)}, [options.edits]
            )


def score(options: argparse.Namespace) -> None:
    """Do what the options ask for; imports are local, because an up-to-date step must return at once."""
    if options.queries is not None:
        from image_copies.pipeline.steps.score_files import score_vectors

        score_vectors(
            queries=options.queries,
            references=options.references,
            ground_truth=options.ground_truth,
            training=options.training,
            dimensions=options.dimensions,
            output=options.output,
            as_json=options.json,
        )
    elif options.compare is not None:
        from image_copies.pipeline.steps.score_files import compare

        others = len(options.compare) == 1
        compare(
            paths=[*options.compare, cli.open_chosen_run(options).folder] if others else options.compare,
            data=options.data,
            ground_truth=options.ground_truth,
        )
    elif options.submission is not None:
        from image_copies.pipeline.steps.score_files import score_file

        score_file(
            options.submission,
            options.ground_truth,
            options.output,
            options.details,
            options.edits,
            options.json,
        )
    else:
        score_run(cli.open_chosen_run(options), options.force)


def score_run(run: Run, force: bool) -> None:
    """Do step 06 and print its table; without a ground truth, what the synthetic queries say of the run."""
    run_step(run, SCORE, force)
    if not has_ground_truth(run):
        # imported here: --help must answer at once
        from image_copies.pipeline.steps.score_table import collect_warnings, print_unscored, read_synthetic

        print_unscored(read_synthetic(run.paths.choice), collect_warnings(run))
        print(
            f"\n{run.data} has no public_ground_truth.csv, so there is no score.\n"
            f"submission: {run.paths.submission}\nreport:     {run.paths.report_page}"
        )
        return
    # imported here: the table of an up-to-date run needs nothing else
    from image_copies.pipeline.steps.score_table import print_scores

    print_scores(run.paths.scores)
    print(
        f"\nsubmission: {run.paths.submission}\nscores:     {run.paths.scores}\nreport:     {run.paths.report_page}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code.

    Raises:
        UserError: when options do not go together, or the work fails for a reason that the user can fix.
    """
    options = make_parser().parse_args(arguments)
    with use_ray(options.ray, options.ray_gpu):
        check(options)
        score(options)
    return 0


if __name__ == "__main__":
    with cli.report_errors():
        main()
