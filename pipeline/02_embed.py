"""Step 02: embed training, reference, query and synthetic images with every trained model, or any folder with a checkpoint.

Under torchrun the images are shared out over processes: torchrun --nproc-per-node 4 -- pipeline/02_embed.py --run DIR
"""

from data.errors import UserError
from pipeline.run.cli import chosen_run, named_path, report_errors, step_parser
from pipeline.steps.definitions import EMBED, run_step


def main() -> None:
    """Parse the command line and do the step."""
    parser = step_parser(__doc__)
    parser.add_argument(
        "--checkpoint", type=named_path, metavar="FILE", help="embed --images with this checkpoint instead of a run"
    )
    parser.add_argument("--images", type=named_path, metavar="DIR", help="folder to embed with --checkpoint")
    parser.add_argument("--output", type=named_path, metavar="FILE.h5", help="vectors file to write with --checkpoint")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="with --images: processes that decode; without it as many as there are cores"
    )
    options = parser.parse_args()
    outside = (options.checkpoint, options.images, options.output)
    with report_errors():
        if options.workers is not None and (options.images is None or options.workers < 0):
            raise UserError(
                f"--workers {options.workers}: 0 or more, with --images; a run's are in its recipe (embedding.workers)."
            )
        if all(value is None for value in outside):
            run_step(chosen_run(options), EMBED, options.force)
        elif any(value is None for value in outside):
            raise UserError("--checkpoint, --images and --output belong together: give all three, or none to embed a run.")
        else:
            # imported here: an up-to-date step must return at once
            from pipeline.steps.embed import embed_folder

            embed_folder(*outside, workers=options.workers)


if __name__ == "__main__":
    main()
