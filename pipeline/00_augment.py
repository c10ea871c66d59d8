"""Step 00: edit validation images into a synthetic query set with ground truth."""

from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import AUGMENT, run_step


def main() -> None:
    """Parse the command line and do the step."""
    options = make_step_parser(__doc__).parse_args()
    with report_errors():
        run = open_chosen_run(options)
        run_step(run, AUGMENT, options.force)
        print(f"synthetic queries: {run.paths.queries}")


if __name__ == "__main__":
    main()
