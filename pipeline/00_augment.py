"""Step 00: edit validation images into a synthetic query set with ground truth, or draw a contact sheet of the edits."""

from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import AUGMENT, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument(
        "--preview", type=int, metavar="N", help="only draw a contact sheet of every edit, of N images"
    )
    options = parser.parse_args()
    with report_errors():
        run = open_chosen_run(options)
        if options.preview is not None:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.augment import draw_sheet

            draw_sheet(run, options.preview)
            print(f"contact sheet: {run.paths.contact_sheet}")
        else:
            run_step(run, AUGMENT, options.force)
            print(f"synthetic queries: {run.paths.queries}")


if __name__ == "__main__":
    main()
