"""Step 01: train every model of the recipe through its stages of drip training; a stopped training resumes.

Under torchrun, the images of a batch and the class matrix are distributed over processes:
torchrun --nproc-per-node 4 -- pipeline/01_train.py --run DIR
With --at-once several models are trained at the same time instead, each on one GPU; --plan says which is faster.
"""

from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import TRAIN, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument("--plan", action="store_true", help="only print the memory, time and disk space that every stage needs")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="with --plan: processes to plan for; default 1")
    parser.add_argument("--left", action="store_true", help="only print in a line what all steps that are left take")
    parser.add_argument("--at-once", type=int, metavar="N", help="train N models at the same time, each on one GPU")
    options = parser.parse_args()
    with report_errors():
        run = open_chosen_run(options)
        if options.left:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.time_left import report_time_left

            report_time_left(run)
        elif options.plan:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.plan import print_plan

            print_plan(run, options.processes)
        else:
            if options.at_once is not None:
                from image_copies.pipeline.steps.train_apart import train_at_once

                train_at_once(run, options.at_once)
            run_step(run, TRAIN, options.force)


if __name__ == "__main__":
    main()
