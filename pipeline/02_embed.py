"""Step 02: embed training, reference, query and synthetic images with every model, or any folder with a checkpoint.

With --ray, the images are distributed over the workers of a Ray cluster, with a bit-identical result.
"""

from image_copies.data.errors import UserError
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.cluster.options import add_ray_options, use_ray
from image_copies.pipeline.run.cli import make_step_parser, named_path, named_place, open_chosen_run, report_errors
from image_copies.pipeline.steps.definitions import EMBED, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = make_step_parser(__doc__)
    parser.add_argument(
        "--checkpoint",
        type=named_path,
        metavar="FILE",
        help="embed --images with this checkpoint instead of the descriptor that ships with the project",
    )
    parser.add_argument("--images", type=named_place, metavar="DIR", help="folder of images to embed outside a run; or s3://…")
    parser.add_argument("--output", type=named_place, metavar="FILE.h5", help="with --images: vectors file to write; or s3://…")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="with --images: processes that decode images; one per core if not given"
    )
    add_ray_options(parser)
    options = parser.parse_args()
    with report_errors(), use_ray(options.ray, options.ray_gpu):
        if options.workers is not None and (options.images is None or options.workers < 0):
            raise UserError(
                f"--workers {options.workers}: give 0 or more, together with --images; a run takes its workers from its recipe "
                "(embedding.workers)."
            )
        if options.checkpoint is None and options.images is None and options.output is None:
            run_step(open_chosen_run(options), EMBED, options.force)
        elif options.images is None or options.output is None:
            raise UserError(
                "--images and --output must be given together, optionally with --checkpoint; give none of them to embed a run."
            )
        else:
            # imported here: an up-to-date step must return at once
            from image_copies.pipeline.steps.embed import embed_folder

            embed_folder(options.checkpoint or SHIPPED, options.images, options.output, workers=options.workers)


if __name__ == "__main__":
    main()
