"""Step 05: write the submission, validate it as the platform would, and write the matching track's CSV."""

from image_copies.pipeline.run.cli import make_step_parser, named_path, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import SUBMIT, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument(
        "--check",
        type=named_path,
        metavar="FILE",
        help="only validate this file, and its ids if --data is given",
    )
    options = parser.parse_args()
    with report_errors():
        if options.check is not None:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.submit import check_submission

            check_submission(options.check, options.data)
        else:
            run = open_chosen_run(options)
            run_step(run, SUBMIT, options.force)
            print(f"submission: {run.paths.submission}, matching track: {run.paths.matches}")


if __name__ == "__main__":
    main()
