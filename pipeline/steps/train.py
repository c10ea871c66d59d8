"""Step 01's work: drip training of one model, validated on the synthetic queries."""

import os
import signal
from contextlib import suppress
from functools import cache
from multiprocessing import get_context, get_start_method, parent_process, set_start_method
from pathlib import Path
from threading import Thread

import numpy as np
import torch

from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.process import has_gpu, print_once, process_count
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.batches import order_classes
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.run import (
    Run,
    TrainingRoles,
    assign_training_roles,
    open_run,
    require_no_tests,
)
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors


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
    settings = run.recipe.trained_models.get(name)
    if settings is None:
        run.recipe.untrained_models[name].make(
            run.checkpoint(name), roles.classes, run.embedding(name).workers
        )
        return
    if run.recipe.side_by_side and not has_gpu() and process_count() == 1:
        torch.set_num_threads(1)
        _train_side_by_side(run)
    if settings.whitening_images is not None:
        require_no_tests(
            run, find_images(settings.whitening_images, naming="path"), f"the whitening of {name}"
        )
    order = order_classes(settings.stages, roles.own, len(roles.classes) - roles.own)
    Trainer(
        settings,
        roles.classes
        if roles.labels is not None
        else roles.classes.select([roles.classes.ids[row] for row in order]),
        roles.overlays,
        labels=roles.labels,
        name=name,
        folder=run.paths.model(name),
        cache=run.paths.cache,
        seed=run.recipe.seed,
        embedding=run.embedding(name),
        validate=lambda descriptor, size: score_on_synthetic_queries(
            run, roles, descriptor, size, run.embedding(name)
        ),
    ).train()


def _train_side_by_side(run: Run) -> None:
    """Train the models that have no checkpoint, each in a process of its own; one that fails is left to be trained here."""
    waiting = [name for name in run.recipe.trained_models if not run.checkpoint(name).exists()]
    if len(waiting) < 2 or parent_process() is not None:
        return
    started = []
    try:
        for name in waiting:
            given = run.folder, name, get_start_method()
            process = get_context("spawn").Process(target=_train_apart, args=given)
            process.start()
            started.append(process)
        for process in started:
            process.join()
    finally:
        for process in started:
            process.terminate()
            process.join()


def _train_apart(folder: Path, name: str, loaders: str) -> None:
    """Train a model of a run in this process, which ends with its parent; loader workers start by the method `loaders`."""
    set_start_method(loaders, force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    run = open_run(folder)
    with suppress(UserError):  # the parent meets it again, and reports it
        train(run, name, assign_training_roles(run))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def check_models(run: Run) -> None:
    """Check what all models of the recipe need, so that the error does not come after hours of training another one.

    Raises:
        UserError: when a backbone is unknown, or a file that a model which is still to be made needs is missing: initial
            weights, or the model itself; not where an earlier model of this run makes it.
    """
    for name, model in run.recipe.networks.items():
        if not run.checkpoint(name).exists():
            with prefix_errors(name):
                model.check_files(run.paths.model(name).parent.resolve())


def _warn_of_few_images(run: Run, roles: TrainingRoles) -> None:
    """Print that step 03 would be refused: its PCA needs as many training images, not held out, as the ensemble's dimensions."""
    needed = max(run.recipe.ensemble.dimensions)
    held_out = len(roles.references) + len(roles.distractors)
    there = len(run.training_images) - held_out
    brought = any(model.background for model in run.recipe.networks.values())
    if there < needed and not brought:
        _warn_once(
            f"  step 03 will need {needed} training images for as many dimensions (ensemble.dimensions), and here are {there} "
            f"beside the {held_out} held out: add {needed - there} at least, or lower it"
        )


@cache
def _warn_once(text: str) -> None:
    """Print a line once for all models of a step."""
    print_once(text)


@search_on_gpu()
def score_on_synthetic_queries(
    run: Run, roles: TrainingRoles, descriptor: Descriptor, image_size: int, settings: EmbeddingSettings
) -> float:
    """Compute the µAP 0…1 of a descriptor on the synthetic queries, without ensemble and normalisation.

    The queries are searched in the validation references, as squares of `image_size` pixels. The descriptor is left in training
    mode.

    Raises:
        UserError: when the synthetic queries are missing or their ground truth cannot be read.
    """
    checkpoint = Checkpoint(descriptor, image_size, {})
    found = embed_in_memory(settings, checkpoint, find_images(run.paths.query_images))
    references = embed_in_memory(settings, checkpoint, roles.references)
    descriptor.train()
    scores, _ = evaluate(found, references, read_ground_truth(run.paths.query_ground_truth))
    return scores.micro_average_precision


def embed_in_memory(settings: EmbeddingSettings, checkpoint: Checkpoint, images: ImageSet) -> Vectors:
    """Embed images without a file."""
    blocks = list(embed_images(checkpoint, images, settings))
    return Vectors(
        images.ids,
        np.concatenate([block.vectors for block in blocks]),
        np.concatenate([block.unreadable for block in blocks]),
    )
