"""Step 03: join the models' embeddings, choose PCA and normalisation on the synthetic queries, project all sets."""

import argparse

from data.images import find_images
from data.layout import TRAINING
from pipeline.run.stage import Run, command_line, require, run_script, run_step
from pipeline.run.staleness import SETS, step_parameters, tell_stale


def ensemble(run: Run, options: argparse.Namespace) -> None:
    embeddings = [
        require(run.folder / "embeddings" / model / f"{name}.h5", "02_embed", run) for model in run.recipe.models for name in SETS
    ]
    folder = run.folder / "ensemble"
    tell_stale(run, "03_ensemble")
    run_step(
        run,
        "03_ensemble",
        outputs=[folder / f"{name}.h5" for name in SETS] + [folder / "projection.h5", folder / "choice.csv"],
        inputs={"embeddings": embeddings, "training images": find_images(run.data / TRAINING)},
        parameters=step_parameters(run.recipe)["03_ensemble"],
        work=lambda: _ensemble(run),
        force=options.force,
    )


def _ensemble(run: Run) -> None:
    # imported here: an up-to-date step must return at once
    from pipeline.steps.ensemble import join_models

    chosen = join_models(run)
    print(
        f"  chosen on the synthetic queries: {chosen.dimensions} dimensions, eigenvalue power {chosen.eigen_power:g}, "
        f"{chosen.method}, β {chosen.beta:g}"
    )


if __name__ == "__main__":
    run_script(command_line(__doc__ or ""), ensemble)
