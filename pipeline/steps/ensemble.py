"""Step 03's work: choose the variant of the ensemble and project all sets with it, in blocks (ISC2021 paper, section 2.6)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from image_copies.data.arrays import Float32s
from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, prefix_errors
from image_copies.submissions.ensemble import normalization, selection
from image_copies.submissions.ensemble import projection as projecting
from image_copies.submissions.ensemble import variant as variants
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import open_vectors, write_vectors

from ..run.paths import SETS, RunPaths
from ..run.recipe import refuse_pca_after_whitening
from ..run.run import Run, assign_training_roles
from ..run.step import search_on_gpu
from .augment import synthetic_truths


@search_on_gpu()
def join_models(run: Run) -> None:
    """Choose the variant, fit the projection on training vectors, write the projected sets.

    Raises:
        UserError: when a model's vectors come from different checkpoints, a training image is also a query or reference, or there
            are too few training images.
    """
    paths = run.paths
    recipe = run.recipe
    models = list(run.recipe.models)
    refuse_pca_after_whitening(recipe)
    _require_same_dimensions(paths, models)
    training = open_joined(paths, models, "training")
    projecting.require_training_only(
        training.ids, {name: open_joined(paths, models, name).ids for name in ("reference", "query")}
    )
    variant, table = selection.find_only_candidate(
        recipe.ensemble, recipe.normalization, models
    ) or _choose(run, training)
    weighted = training.weighted(variant.weights or (1.0,) * len(models))
    rows = weighted.choose_rows(recipe.ensemble.training_sample, recipe.seed)
    with prefix_errors(training.name):
        fitted = projecting.fit_projection_on_rows(weighted, rows, variant.dimensions)
    projection = fitted.of_unweighted(weighted.weight_of_dimensions())
    paths.choice.unlink(missing_ok=True)  # written last: where it exists, the projected sets are consistent
    for name in SETS:
        _project_set(open_joined(paths, models, name), projection, variant, paths.projected(name))
    projecting.save_projection(paths.projection, projection)
    variants.write_choice(paths.choice, table)
    _report(variant, table, models)


def _report(variant: variants.Variant, table: pd.DataFrame, models: list[str]) -> None:
    weights = "".join(
        f", {name} × {weight:g}" for name, weight in zip(models, variant.weights or (), strict=False)
    )
    print(
        f"  the variant: {variant.dimensions} dimensions, eigenvalue power {variant.eigen_power:g}, "
        f"{variant.method}, β {variant.beta:g}{weights}"
    )
    if variants.LEFT_OUT_FAMILIES in table:
        learnt = table.iloc[0][variants.LEARNT_FAMILIES]
        other = table.iloc[0][variants.LEFT_OUT_FAMILIES]
        print(
            f"  its µAP: {learnt:.3f} on queries of learnt families of edits, {other:.3f} of families left out of training"
        )


def open_joined(paths: RunPaths, models: Iterable[str], part: str) -> ConcatenatedVectors:
    """Open the models' vectors of one of the SETS, concatenated per image."""
    return open_concatenated([paths.embeddings(model, part) for model in models])


def _require_same_dimensions(paths: RunPaths, models: list[str]) -> None:
    """Check that all sets of each model have the dimensions of its training vectors."""
    for model in models:
        training, *others = (paths.embeddings(model, name) for name in SETS)
        wanted = open_vectors(training).dimensions
        for path in others:
            found = open_vectors(path).dimensions
            if found != wanted:
                raise UserError(
                    f"{path} has {found} dimensions, but {training} has {wanted}: they come from different checkpoints. Delete "
                    f"both and embed again: {name_command('02_embed')} --run {paths.folder}"
                )


def _choose(run: Run, training: ConcatenatedVectors) -> tuple[variants.Variant, pd.DataFrame]:
    """Return the best candidate and the table of all."""
    recipe = run.recipe
    models = list(recipe.models)
    roles = assign_training_roles(run)
    synthetic = open_joined(run.paths, models, "synthetic")
    others = len(training) - len(roles.references) - len(roles.distractors)
    usable = selection.find_usable_methods(recipe.normalization, others)
    for method in recipe.normalization.methods:
        if method not in usable:
            needed = normalization.count_neighbours_needed(recipe.normalization, method)
            print(
                f"  skipped: {method} needs {needed} training neighbours, but there are "
                f"{others}. Add training images or lower the numbers of neighbours under normalization in the recipe."
            )
    truth, left_out = synthetic_truths(run.paths, recipe.queries.left_out)
    held_out = roles.references.ids + roles.distractors.ids
    tables = []
    for weights in recipe.ensemble.weightings(models):
        factors = weights or (1.0,) * len(models)
        candidates = selection.project_validation(
            training.weighted(factors),
            roles.references.ids,
            held_out,
            synthetic.weighted(factors),
            max(recipe.ensemble.dimensions),
            recipe.ensemble.training_sample,
            recipe.seed,
        )
        tables.append(
            selection.choose_variant(
                candidates, truth, recipe.ensemble, recipe.normalization, weights, left_out
            )[1]
        )
    return selection.merge_candidates(tables)


def _project_set(
    part: ConcatenatedVectors, projection: projecting.Projection, variant: variants.Variant, output: Path
) -> None:
    """Project all vectors of a set into a file, with one thread: the last bits may depend on the number."""

    def project() -> Iterator[Float32s]:
        for block in part.blocks():
            with threadpool_limits(1, user_api="blas"):
                yield projection.apply(block, variant.dimensions, variant.eigen_power)

    write_vectors(output, part.ids, project(), part.unreadable)
