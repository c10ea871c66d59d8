"""Step 01: train every model of the recipe through its stages of drip training; a stopped training resumes.

Under torchrun, the images of a batch and the class matrix are distributed over processes:
torchrun --nproc-per-node 4 -- pipeline/01_train.py --run DIR
"""

from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import TRAIN, run_step


def main() -> None:
    """Parse the command line and do the step."""
    options = make_step_parser(__doc__).parse_args()
    with report_errors():
        run_step(open_chosen_run(options), TRAIN, options.force)


if __name__ == "__main__":
    main()
