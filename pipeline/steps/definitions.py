"""The whole pipeline on one page: for each of the seven steps its requirements, inputs, outputs and parameters.

The functions that do the work are imported only when there is work, so that an up-to-date run takes seconds.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import GROUND_TRUTH, QUERY_EDITS
from image_copies.data.process import print_once
from image_copies.models.inference.settings import (
    EmbeddingSettings,
    OnnxModelSettings,
)

from ..run.paths import SETS
from ..run.run import Run, TrainingRoles, assign_training_roles, digest_labels, find_images_to_embed
from ..run.step import Product, Step, make_product, report_stale


def run_step(run: Run, step: Step, force: bool = False) -> None:
    """Do one of the STEPS: check its requirements, report stale earlier steps, make what is not up to date, or all with `force`.

    Raises:
        UserError: when an earlier step has not been done, another process works in the run folder, or the work fails for a reason
            that the user can fix.
    """
    for path in step.needs(run):
        run.require(path)
    report_stale(run, STEPS[: STEPS.index(step)])
    print_once(f"step {STEPS.index(step) + 1} of {len(STEPS)}: {step.name}")
    for product in step.products(run):
        make_product(run, step, product, force)


def _augment(run: Run) -> list[Product]:
    def work() -> None:
        from .augment import make_queries
        from .train import check_models

        check_models(run)  # before the first work of a run, not after minutes of it
        make_queries(run, run.paths.queries, run.recipe.queries.count)

    recipe = run.recipe
    return [
        Product(
            inputs=lambda: {"training images": run.training_images},
            outputs=[run.paths.query_ground_truth],
            parameters={"queries": recipe.queries, "split": recipe.split.shares(), "seed": recipe.seed},
            work=work,
        )
    ]


def _train(run: Run) -> list[Product]:
    roles = cache(partial(assign_training_roles, run))
    models = [_train_model(run, name, roles) for name in run.recipe.networks]
    return [_train_together(run, models, roles)] if run.recipe.side_by_side else models


def _train_together(run: Run, models: Sequence[Product], roles: Callable[[], TrainingRoles]) -> Product:
    """One product of all models: none can be made or forced alone while others are trained."""

    def work() -> None:
        from .train import train_together

        train_together(run, roles())

    return Product(
        inputs=lambda: {
            f"{each.name}: {key}": value for each in models for key, value in each.inputs().items()
        },
        outputs=[path for each in models for path in each.outputs],
        parameters={each.name: each.parameters for each in models},
        work=work,
        unfinished=[path for each in models for path in each.unfinished],
    )


def _train_model(run: Run, name: str, roles: Callable[[], TrainingRoles]) -> Product:
    def work() -> None:
        from .train import train

        train(run, name, roles())

    settings = run.recipe.networks[name]
    return Product(
        name=name,
        inputs=lambda: {
            "classes": roles().classes,
            "labels": digest_labels(roles().labels),
            "overlays": roles().overlays,
            "synthetic queries": run.paths.query_ground_truth,
            "weights": settings.weights_file,
            "whitening images": settings.whitening_images
            and find_images(settings.whitening_images, naming="path"),
        },
        outputs=[run.checkpoint(name)],
        parameters={
            "model": settings.what_trains(),
            "seed": run.recipe.seed,
            "embedding of the whitening": _embedding_of_whitening(run, name),
        },
        work=work,
        unfinished=[run.paths.model(name)],
    )


def _embedding_of_whitening(run: Run, name: str) -> dict[str, float] | None:
    """Return the image size and the pooling exponent that a whitening is fitted at, where the recipe gives any.

    They may change after training: the step then fits the whitening again, without training.
    """
    settings = run.recipe.trained_models.get(name)
    embedding = run.embedding(name)
    if settings is None or not settings.descriptor.whiten:
        return None
    given = {"image_size": embedding.image_size, "pooling_exponent": embedding.pooling_exponent}
    return {key: value for key, value in given.items() if value is not None} or None


def _embed(run: Run) -> list[Product]:
    sets = cache(partial(find_images_to_embed, run))
    return [
        (_embed_set if name in run.recipe.networks else _embed_by_onnx)(run, name, part, sets)
        for name in run.recipe.models
        for part in SETS
    ]


def _embed_by_onnx(run: Run, name: str, part: str, sets: Callable[[], dict[str, ImageSet]]) -> Product:
    """The vectors of a set of images by the network of an ONNX file."""
    model = run.recipe.models[name]
    assert isinstance(model, OnnxModelSettings)

    def work() -> None:
        from image_copies.models.inference.embedders import embed_with_all
        from image_copies.models.inference.onnx_embedder import open_onnx

        from .vectors import write_blocks

        images = sets()[part]
        network = open_onnx(model.file, size=model.image_size)
        write_blocks(
            embed_with_all([network], images, model.embedding), images, run.paths.embeddings(name, part)
        )

    return Product(
        name=f"{name} {part}",
        inputs=lambda: {"file": model.file, "images": sets()[part]},
        outputs=[run.paths.embeddings(name, part)],
        parameters={"image_size": model.image_size},
        work=work,
    )


class _SetSettings(EmbeddingSettings):
    """What the vectors of a set depend on, also whether those that a file brings along stand with them."""

    background: bool = False


def _embed_set(run: Run, model: str, part: str, sets: Callable[[], dict[str, ImageSet]]) -> Product:
    """The vectors of a set of images."""

    def work() -> None:
        from .embed import embed_to_file

        embed_to_file(
            run.checkpoint(model),
            sets()[part],
            run.embedding(model),
            output=run.paths.embeddings(model, part),
            background=has_background,
        )

    has_background = part == "training" and run.recipe.networks[model].background
    return Product(
        name=f"{model} {part}",
        inputs=lambda: {"checkpoint": run.checkpoint(model), "images": sets()[part]},
        outputs=[run.paths.embeddings(model, part)],
        parameters=_SetSettings(
            **dict(run.embedding(model).what_makes_vectors()), background=has_background
        ),
        work=work,
    )


def _join(run: Run) -> list[Product]:
    def work() -> None:
        from .ensemble import join_models

        join_models(run)

    recipe, paths = run.recipe, run.paths
    return [
        Product(
            inputs=lambda: {"embeddings": _list_embeddings(run), "training images": run.training_images},
            outputs=[*map(paths.projected, SETS), paths.projection, paths.choice],
            parameters={
                "models": list(recipe.models),
                "ensemble": recipe.ensemble,
                "normalization": recipe.normalization,
                "split": recipe.split.shares(),
                "seed": recipe.seed,
            },
            work=work,
        )
    ]


def _list_embeddings(run: Run) -> list[Path]:
    return [run.paths.embeddings(model, part) for model in run.recipe.models for part in SETS]


def _normalize(run: Run) -> list[Product]:
    def work() -> None:
        from .normalize import normalize

        normalize(run)

    return [
        Product(
            inputs=lambda: {path.name: path for path in _list_for_normalization(run)},
            outputs=[run.paths.normalized_queries],
            parameters=run.recipe.normalization,
            work=work,
        )
    ]


def _list_for_normalization(run: Run) -> list[Path]:
    return [run.paths.projected("query"), run.paths.projected("training"), run.paths.choice]


def _submit(run: Run) -> list[Product]:
    def work() -> None:
        from .submit import submit

        submit(run)

    paths = run.paths
    return [
        Product(
            inputs=lambda: {"query": paths.normalized_queries, "reference": paths.projected("reference")},
            outputs=[paths.submission, paths.matches],
            parameters={},
            work=work,
        )
    ]


def _score(run: Run) -> list[Product]:
    scored = has_ground_truth(run)

    def work() -> None:
        from .score import report_unscored, score_variants

        # both write the same page: after a kill, the manifest of one must not call up to date what is half the other's
        run.paths.manifest(SCORE.name).unlink(missing_ok=True)
        (score_variants if scored else report_unscored)(run)

    return [
        Product(
            inputs=lambda: {
                "submission": run.paths.submission,
                "ground truth": run.data / GROUND_TRUTH,
                "edits": run.data / QUERY_EDITS,
                "choice": run.paths.choice,
            },
            outputs=[*([run.paths.scores] if scored else []), run.paths.report_page],
            parameters=run.recipe.normalization,
            work=work,
        )
    ]


def has_ground_truth(run: Run) -> bool:
    """Whether the run's data set has a ground truth to score against."""
    return (run.data / GROUND_TRUTH).is_file()


AUGMENT = Step("00_augment", _augment)
TRAIN = Step("01_train", _train, needs=lambda run: [run.paths.query_ground_truth])
EMBED = Step(
    "02_embed",
    _embed,
    needs=lambda run: [run.paths.query_ground_truth, *map(run.checkpoint, run.recipe.networks)],
)
ENSEMBLE = Step("03_ensemble", _join, needs=_list_embeddings)
NORMALIZE = Step("04_normalize", _normalize, needs=_list_for_normalization)
SUBMIT = Step(
    "05_submit",
    _submit,
    needs=lambda run: [run.paths.normalized_queries, run.paths.projected("reference"), run.paths.choice],
)
SCORE = Step(
    "06_score",
    _score,
    needs=lambda run: [
        run.paths.submission,
        run.paths.choice,
        *([] if has_ground_truth(run) else [run.paths.matches]),
    ],
)
STEPS = (AUGMENT, TRAIN, EMBED, ENSEMBLE, NORMALIZE, SUBMIT, SCORE)
