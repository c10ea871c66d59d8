"""Step 01's work: drip training of one model, validated on the synthetic queries."""

import os
import signal
from functools import cache, partial
from multiprocessing import get_context, get_start_method, parent_process, set_start_method
from pathlib import Path
from threading import Thread

import numpy as np
import torch

from image_copies.data.errors import prefix_errors
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.process import has_gpu, print_once, process_count
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.batches import order_classes
from image_copies.models.training.trainer import Trainer
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors

from ..run.run import Run, TrainingRoles, assign_training_roles, open_run, require_no_tests
from ..run.step import search_on_gpu
from .augment import synthetic_truths


def train(run: Run, name: str, roles: TrainingRoles) -> None:
    """Train one model of the recipe, or resume its training.

    For a handmade model only the whitening is fitted; a file is taken unchanged.

    Raises:
        UserError: when an image to learn from is a query or a reference, or as for `check_models`.
    """
    if parent_process() is None:
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
    if settings.whitening_images is not None:
        require_no_tests(
            run, find_images(settings.whitening_images, naming="path"), f"the whitening of {name}"
        )
    classes = roles.classes
    if roles.labels is None:
        order = order_classes(settings.stages, roles.own, len(classes) - roles.own)
        classes = classes.select([classes.ids[row] for row in order])
    queries = find_images(run.paths.query_images)
    embedding = run.embedding(name)
    unlearnt = synthetic_truths(run.paths, run.recipe.queries.left_out)[1]
    truths = (read_ground_truth(run.paths.query_ground_truth), unlearnt)
    Trainer(
        settings,
        classes,
        roles.overlays,
        labels=roles.labels,
        name=name,
        folder=run.paths.model(name),
        cache=run.paths.cache,
        seed=run.recipe.seed,
        embedding=embedding,
        validate=partial(score_on_synthetic_queries, embedding, queries, roles.references, truths),
    ).train()


def train_together(run: Run, roles: TrainingRoles) -> None:
    """Train all models of the recipe: on a CPU at the same time, each by one thread, in a process of its own.

    A model whose process fails is trained here again, after the others.

    Raises:
        UserError: as for `train`.
    """
    done = set[str]()
    if not has_gpu() and process_count() == 1:
        torch.set_num_threads(1)
        done = _train_apart(run)
    for name in run.recipe.networks:
        if name not in done:
            train(run, name, roles)


def _train_apart(run: Run) -> set[str]:
    """Train models in processes of their own, and return the names of those that are trained."""
    context = get_context("spawn")
    given = {name: (run.folder, name, get_start_method()) for name in run.recipe.trained_models}
    processes = {name: context.Process(target=_train_alone, args=each) for name, each in given.items()}
    try:
        for process in processes.values():
            process.start()
        for process in processes.values():
            process.join()
    finally:
        started = [process for process in processes.values() if process.pid is not None]
        for process in started:
            process.terminate()
        for process in started:
            process.join()
    return {name for name, process in processes.items() if process.exitcode == 0}


def _train_alone(folder: Path, name: str, start_method: str) -> None:
    """Train a model of a run in this process, which ends with its parent; loader workers start by the method."""
    set_start_method(start_method, force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    run = open_run(folder)
    try:
        train(run, name, assign_training_roles(run))
    except Exception as error:  # the parent meets it again, and reports it
        raise SystemExit(1) from error


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
    settings: EmbeddingSettings,
    queries: ImageSet,
    references: ImageSet,
    truths: tuple[GroundTruth, GroundTruth | None],
    descriptor: Descriptor,
    image_size: int,
) -> tuple[float, float | None]:
    """Compute the µAP 0…1 of a descriptor on the synthetic queries, and on those of the second ground truth, if any.

    Without ensemble and normalisation. They are searched in the validation references, as squares of `image_size` pixels. The
    descriptor is left in training mode.
    """
    checkpoint = Checkpoint(descriptor, image_size, {})
    asked = embed_in_memory(settings, checkpoint, queries)
    searched = embed_in_memory(settings, checkpoint, references)
    descriptor.train()
    everything, unlearnt = truths
    score = evaluate(asked, searched, everything)[0].micro_average_precision
    if unlearnt is None:
        return score, None
    return score, evaluate(asked, searched, unlearnt)[0].micro_average_precision


def embed_in_memory(settings: EmbeddingSettings, checkpoint: Checkpoint, images: ImageSet) -> Vectors:
    """Embed images without a file."""
    blocks = list(embed_images(checkpoint, images, settings))
    return Vectors(
        images.ids,
        np.concatenate([block.vectors for block in blocks]),
        np.concatenate([block.unreadable for block in blocks]),
    )
