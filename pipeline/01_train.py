"""Step 01: train every model of the recipe through its stages of drip training; a stopped training resumes.

Under torchrun, the images of a batch and the class matrix are distributed over processes:
torchrun --nproc-per-node 4 -- pipeline/01_train.py --run DIR
"""

from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import TRAIN, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument("--left", action="store_true", help="only print what time and disk space the steps that are left take")
    options = parser.parse_args()
    with report_errors():
        run = open_chosen_run(options)
        if options.left:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.time_left import report_time_left

            report_time_left(run)
        else:
            run_step(run, TRAIN, options.force)


if __name__ == "__main__":
    main()
