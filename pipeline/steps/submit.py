"""Step 05's work: write the submission, and check any submission against the challenge's rules."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.layout import open_isc_folder
from image_copies.submissions.formats import matching_track, submission
from image_copies.submissions.vectors.files import open_vectors, read_vectors

from ..run.run import Run


def submit(run: Run) -> None:
    """Write the run's submission and, from the written file, the pairs of the matching track.

    Raises:
        UserError: when the submission would break a rule, or the disk is full.
    """
    paths = run.paths
    submission.write_submission(
        paths.submission, read_vectors(paths.normalized_queries), open_vectors(paths.projected("reference"))
    )
    queries, references = submission.open_submission(paths.submission)
    for oddity in submission.describe_oddities(queries, references):
        print(f"  {oddity}")
    matching_track.write_matches(paths.matches, queries, references)


def check_submission(path: Path, data: Path | None) -> None:
    """Validate a submission, with a data set also its ids, and print that it is valid.

    Raises:
        UserError: when it is invalid; the message lists every problem.
    """
    expected = open_isc_folder(data) if data is not None else None
    ids = (expected.query.ids, expected.reference.ids) if expected else (None, None)
    problems = submission.find_submission_problems(path, *ids)
    if problems:
        raise UserError(
            f"{path} is not a valid submission, {len(problems)} problem(s):\n  " + "\n  ".join(problems)
        )
    for oddity in submission.describe_oddities(*submission.open_submission(path)):
        print(f"warning: {oddity}")
    print(
        f"{path} is a valid submission"
        + ("" if expected else " (its ids were not compared with those of a data set: add --data DIR)")
    )
