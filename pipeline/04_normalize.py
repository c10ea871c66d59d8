"""Step 04: normalise the queries against their training neighbours, by the method chosen on the synthetic queries."""

from image_copies.pipeline.cluster import add_ray_options, use_ray
from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import NORMALIZE, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="only print µAP on the synthetic queries for many methods, β and k",
    )
    add_ray_options(parser)
    options = parser.parse_args()
    with report_errors(), use_ray(options.ray, options.ray_gpu):
        run = open_chosen_run(options)
        if options.sweep:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.normalize import print_sweep

            print_sweep(run)
        else:
            run_step(run, NORMALIZE, options.force)


if __name__ == "__main__":
    main()
