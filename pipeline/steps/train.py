"""Step 01's work: drip training of one model, validated on the synthetic queries."""

from functools import cache
from pathlib import Path

from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.images import find_images
from image_copies.data.process import print_once
from image_copies.models.inference.settings import FileModelSettings, HandmadeModelSettings, UntrainedModelSettings
from image_copies.models.network.backbones import check_backbone
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.start import find_start
from image_copies.models.training.class_counts import order_classes
from image_copies.models.training.handmade import whiten_handmade
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.run import Run, TrainingRoles, require_no_tests
from image_copies.pipeline.steps.validate import score_on_synthetic_queries, watch_folder


def train(run: Run, name: str, roles: TrainingRoles) -> None:
    """Train one model of the recipe, or resume its training.

    For a handmade model only the whitening is fitted; a file is taken unchanged.

    Raises:
        UserError: when an image to learn from is a query or a reference, or as for `check_models`.
    """
    _warn_of_few_images(run, roles)
    require_no_tests(run, roles.classes, f"the training of {name}")
    require_no_tests(run, roles.overlays, f"the pasted images of {name}")
    check_models(run)
    settings = run.recipe.networks[name]
    if isinstance(settings, FileModelSettings):
        checkpoint = load_descriptor(settings.weights_file)
        path = run.checkpoint(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_descriptor(path, checkpoint.descriptor, checkpoint.image_size, checkpoint.notes)
        return
    if isinstance(settings, ModelSettings) and settings.whitening_images is not None:
        require_no_tests(run, find_images(settings.whitening_images, naming="path"), f"the whitening of {name}")
    if isinstance(settings, HandmadeModelSettings):
        whiten_handmade(settings, roles.classes, run.paths.model(name), run.embedding(name).workers)
        return
    order = order_classes(settings.stages, roles.own, len(roles.classes) - roles.own)
    Trainer(
        settings,
        roles.classes if roles.labels is not None else roles.classes.select([roles.classes.ids[row] for row in order]),
        roles.overlays,
        labels=roles.labels,
        name=name,
        folder=run.paths.model(name),
        cache=run.paths.cache,
        seed=run.recipe.seed,
        embedding=run.embedding(name),
        watch=None if run.recipe.watch is None else watch_folder(run.recipe.watch, run.embedding(name)),
        validate=lambda descriptor, size: score_on_synthetic_queries(run, roles, descriptor, size, run.embedding(name)),
    ).train()


def check_models(run: Run) -> None:
    """Check what all models of the recipe need, so that the error does not come after hours of training another one.

    Raises:
        UserError: when a backbone is unknown, or a file that a model which is still to be made needs is missing: initial
            weights, or the model itself; not where an earlier model of this run makes it.
    """
    for name, model in run.recipe.networks.items():
        if isinstance(model, ModelSettings):
            check_backbone(model.descriptor.backbone)
        if not run.checkpoint(name).exists():
            with prefix_errors(name):
                _check_files(model, run.paths.model(name).parent.resolve())


def _check_files(model: ModelSettings | UntrainedModelSettings, made_here: Path) -> None:
    """Check that the files that a model is made from are there, but for those that the run makes in the folder `made_here`."""

    def is_made_here(file: Path | None) -> bool:
        return file is not None and file.resolve().is_relative_to(made_here)

    file = model.weights_file
    if isinstance(model, FileModelSettings) and not (model.weights_file.is_file() or is_made_here(file)):
        raise UserError(f"{file}: no such file. `file` of the recipe names a checkpoint or a published descriptor.")
    if isinstance(model, ModelSettings) and model.descriptor.weights not in ("none", "pretrained") and not is_made_here(file):
        find_start(model.descriptor.weights)


def _warn_of_few_images(run: Run, roles: TrainingRoles) -> None:
    """Print that step 03 would be refused: its PCA needs as many training images, not held out, as the ensemble's dimensions."""
    needed, held_out = max(run.recipe.ensemble.dimensions), len(roles.references) + len(roles.distractors)
    there = len(run.training_images) - held_out
    brought = any(isinstance(model, FileModelSettings) and model.background for model in run.recipe.networks.values())
    if there < needed and not brought:
        _warn_once(
            f"  step 03 will need {needed} training images for as many dimensions (ensemble.dimensions), and here are {there} "
            f"beside the {held_out} held out: add {needed - there} at least, or lower it"
        )


@cache
def _warn_once(text: str) -> None:
    """Print a line once for all models of a step."""
    print_once(text)
