"""Step 05: write the submission, validate it as the platform would, and write the matching track's CSV."""

import argparse
from pathlib import Path

from data.errors import UserError
from pipeline.run.paths import named_path
from pipeline.run.stage import Run, clear_errors, command_line, open_run, require, run_step
from pipeline.run.staleness import step_parameters, tell_stale


def submit(run: Run, options: argparse.Namespace) -> None:
    query = require(run.folder / "normalized" / "query.h5", "04_normalize", run)
    reference, _ = (require(run.folder / "ensemble" / name, "03_ensemble", run) for name in ("reference.h5", "choice.csv"))
    tell_stale(run, "05_submit")
    output, matches = run.folder / "submission.h5", run.folder / "matches.csv"
    run_step(
        run,
        "05_submit",
        outputs=[output, matches],
        inputs={"query": query, "reference": reference},
        parameters=step_parameters(run.recipe)["05_submit"],
        work=lambda: _submit(query, reference, output, matches),
        force=options.force,
    )
    print(f"submission: {output}, matching track: {matches}")


def _submit(query: Path, reference: Path, output: Path, matches: Path) -> None:
    # imported here: an up-to-date step must return at once
    from submissions.formats.matching_track import write_matches
    from submissions.formats.submission import read_submission, write_submission
    from submissions.vectors.files import read_vectors

    write_submission(output, read_vectors(query), read_vectors(reference))
    write_matches(matches, *read_submission(output))


def check(path: Path, data: Path | None) -> None:
    """Print that the file is valid, or raise UserError with every broken rule."""
    from data.layout import open_isc_folder
    from submissions.formats.submission import submission_problems

    expected = open_isc_folder(data) if data is not None else None
    ids = (expected.query.ids, expected.reference.ids) if expected else (None, None)
    problems = submission_problems(path, *ids)
    if problems:
        raise UserError(f"{path} is not a valid submission, {len(problems)} problem(s):\n  " + "\n  ".join(problems))
    print(f"{path} is a valid submission" + ("" if expected else " (ids were not compared with images: add --data DIR)"))


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--check", type=named_path, metavar="FILE", help="only validate this file, against --data where given")
    arguments = parser.parse_args()
    with clear_errors():
        if arguments.check is not None:
            check(arguments.check, arguments.data)
        else:
            submit(open_run(arguments), arguments)
