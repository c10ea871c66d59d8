"""Step 02: embed training, reference, query and synthetic images with every trained model."""

import argparse
from functools import partial
from pathlib import Path

from data.images import ImageSet
from pipeline.roles import images_to_embed
from pipeline.stage import Run, command_line, require, run_script, run_step


def embed(run: Run, options: argparse.Namespace) -> None:
    require(run.folder / "queries" / "public_ground_truth.csv", "00_augment", run)
    sets = images_to_embed(run)
    for model, settings in run.recipe.models.items():
        checkpoint = require(run.folder / "models" / model / f"stage-{len(settings.stages)}.safetensors", "01_train", run)
        for name, images in sets.items():
            output = run.folder / "embeddings" / model / f"{name}.h5"
            run_step(
                run,
                "02_embed",
                name=f"{model} {name}",
                outputs=[output],
                inputs={"checkpoint": checkpoint, "images": images},
                parameters=run.recipe.embedding.model_dump(mode="json", exclude={"workers", "batch_size", "shard"}),
                work=partial(_embed_one, run, checkpoint, images, output),
                force=options.force,
            )


def _embed_one(run: Run, checkpoint: Path, images: ImageSet, output: Path) -> None:
    # imported here: an up-to-date step must return at once
    from pipeline.embedding import embed_to_file

    embed_to_file(checkpoint, images, run.recipe.embedding, output)


if __name__ == "__main__":
    run_script(command_line(__doc__ or ""), embed)
