"""Step 03's work: concatenated embeddings → chosen variant → projected sets."""

import numpy as np

from data.errors import UserError
from data.ground_truth import read_ground_truth
from pipeline.roles import training_roles
from pipeline.stage import Run
from submissions.projection import fit_projection, save_projection
from submissions.selection import Variant, choose_variant, write_choice
from submissions.vectors import Vectors, read_vectors, write_vectors


def join_models(run: Run) -> Variant:
    """Choose the variant, fit the projection on all training vectors, write the projected sets."""
    roles, recipe, folder = training_roles(run), run.recipe, run.folder / "ensemble"
    training, synthetic = _joined(run, "training"), _joined(run, "synthetic")
    truth = read_ground_truth(run.folder / "queries" / "public_ground_truth.csv")
    variant, table = choose_variant(
        training,
        roles.references.ids,
        roles.references.ids + roles.distractors.ids,
        synthetic,
        truth,
        recipe.ensemble,
        recipe.normalization,
    )
    projection = fit_projection(training.readable())
    for name in ("training", "reference", "query", "synthetic"):
        part = _joined(run, name)
        projected = projection.apply(part.vectors, variant.dimensions, variant.eigen_power)
        write_vectors(folder / f"{name}.h5", part.ids, [projected], part.unreadable)
    save_projection(folder / "projection.h5", projection)
    write_choice(folder, variant, table)
    return variant


def _joined(run: Run, name: str) -> Vectors:
    """The models' vectors of one set side by side [n, Σ d]; UserError when they are not of the same images."""
    parts = {model: read_vectors(run.folder / "embeddings" / model / f"{name}.h5") for model in run.recipe.models}
    first_model, first = next(iter(parts.items()))
    for model, part in parts.items():
        if part.ids != first.ids:
            raise UserError(
                f"the models {first_model} ({len(first)} images) and {model} ({len(part)} images) embedded different {name} "
                f"images. Embed them again: python pipeline/02_embed.py --run {run.folder} --force"
            )
    unreadable = np.logical_or.reduce([part.unreadable for part in parts.values()])
    return Vectors(first.ids, np.concatenate([part.vectors for part in parts.values()], axis=1), unreadable)
