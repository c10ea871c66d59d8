"""Step 04: normalise the queries against their training neighbours, by the method chosen on the synthetic queries."""

from image_copies.pipeline.cluster import add_ray_options, use_ray
from image_copies.pipeline.run.cli import make_step_parser, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import NORMALIZE, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    add_ray_options(parser)
    options = parser.parse_args()
    with report_errors(), use_ray(options.ray, options.ray_gpu):
        run_step(open_chosen_run(options), NORMALIZE, options.force)


if __name__ == "__main__":
    main()
