"""Step 02: embed training, reference, query and synthetic images with every trained model, or any folder with a checkpoint.

Under torchrun the images are shared out over processes: torchrun --nproc-per-node 4 -- pipeline/02_embed.py --run DIR
"""

import argparse
from functools import partial
from pathlib import Path

from data.errors import UserError
from data.images import ImageSet, find_images
from models.settings import EmbeddingSettings
from pipeline.run.paths import named_path
from pipeline.run.stage import Run, clear_errors, command_line, open_run, require, run_step, say
from pipeline.run.staleness import step_parameters, tell_stale
from pipeline.run.training_roles import images_to_embed


def embed(run: Run, options: argparse.Namespace) -> None:
    require(run.folder / "queries" / "public_ground_truth.csv", "00_augment", run)
    tell_stale(run, "02_embed")
    sets = images_to_embed(run)
    for model, settings in run.recipe.models.items():
        checkpoint = require(run.folder / "models" / model / f"stage-{len(settings.stages)}.safetensors", "01_train", run)
        own = settings.embedding or run.recipe.embedding
        for name, images in sets.items():
            output = run.folder / "embeddings" / model / f"{name}.h5"
            run_step(
                run,
                "02_embed",
                name=f"{model} {name}",
                outputs=[output],
                inputs={"checkpoint": checkpoint, "images": images},
                parameters=step_parameters(run.recipe)[f"02_embed {model} {name}"],
                work=partial(_embed_one, own, checkpoint, images, output),
                force=options.force,
            )


def _embed_one(settings: EmbeddingSettings, checkpoint: Path, images: ImageSet, output: Path) -> None:
    # imported here: an up-to-date step must return at once
    from pipeline.steps.embed import embed_to_file

    embed_to_file(checkpoint, images, settings, output)


def embed_folder(checkpoint: Path, folder: Path, output: Path) -> None:
    """Embed any folder outside a run; ids are the paths below it without their endings."""
    from pipeline.steps.embed import embed_to_file

    embed_to_file(checkpoint, find_images(folder, naming="path"), EmbeddingSettings(), output)
    say(f"vectors: {output}")


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument(
        "--checkpoint", type=named_path, metavar="FILE", help="embed --images with this checkpoint instead of a run"
    )
    parser.add_argument("--images", type=named_path, metavar="DIR", help="folder to embed with --checkpoint")
    parser.add_argument("--output", type=named_path, metavar="FILE.h5", help="vectors file to write with --checkpoint")
    arguments = parser.parse_args()
    outside = (arguments.checkpoint, arguments.images, arguments.output)
    with clear_errors():
        if all(value is None for value in outside):
            embed(open_run(arguments), arguments)
        elif any(value is None for value in outside):
            raise UserError("--checkpoint, --images and --output belong together: give all three, or none to embed a run.")
        else:
            embed_folder(*outside)
