"""Training one model through its drip stages: visible, resumable, the same whatever the number of workers or processes.

A stage begins with the whole class matrix rebuilt from the backbone's own centroids (class_rows.py), runs until its loss
threshold, a plateau or its budget ends it (stage.py), and leaves a checkpoint.
"""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from image_copies.augmentations.randomness import derived_seed
from image_copies.data.cache import cache_images
from image_copies.data.images import ImageSet
from image_copies.data.process import usable_cores
from image_copies.models.device import choose_algorithms, describe_device, report_lack_of_memory
from image_copies.models.distributed import report_lost_process
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.training.batches import build_batches
from image_copies.models.training.begin import Training, Validate, Watch, begin_training, find_unlabelled
from image_copies.models.training.class_rows import rebuild_class_rows
from image_copies.models.training.collapse import embed_classes, measure_collapse
from image_copies.models.training.curve import EpochRow, read_rows, record_validation
from image_copies.models.training.files import stage_checkpoint
from image_copies.models.training.final_whitening import learn_whitening
from image_copies.models.training.learner import Learner, build_learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings
from image_copies.models.training.stage import StageRun, run_stage
from image_copies.models.training.stage_begin import (
    build_edited_images,
    build_objective,
    check_modes,
    choose_rows,
    report_unreadable,
)
from image_copies.models.training.stage_end import (
    find_troubles,
    report_end,
    restore_checkpoint,
    write_checkpoint,
    write_stage,
    write_start,
)
from image_copies.models.training.state import DRAWN_FOR, Progress, save_state

WORKING_SCALE = 1.5  # images are edited larger than they are learnt from, so that crops keep detail
MEMORY_REMEDY = (
    "Lower batch_size (with optimizer.accumulate the step stays as large) or image_size of the stage, use precision bf16, "
    "class_kind adafactor or more processes. A changed recipe trains from the start; the same one "
    "goes on from the last saved state where more memory is free."
)


def train_model(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    folder: Path,
    cache: Path,
    seed: int,
    validate: Validate | None = None,
    watch: Watch | None = None,
    labels: NDArray[np.int64] | None = None,
    name: str = "",
    embedding: EmbeddingSettings | None = None,
) -> Path:
    """Train from the last saved step in `folder` to the end; of a finished training only the whitening, if any, is fitted again.

    Writes `stage-<n>.safetensors`, the training state, `curve.csv` and TensorBoard files. Under torchrun all processes call this
    together: each takes its part of every batch and of the class matrix.

    Args:
        settings: Settings of the model.
        classes: The images to learn from.
        overlays: Images that edits paste into others.
        folder: Where the training keeps its files; the path of the last stage's checkpoint there is returned.
        cache: Folder of resized images, which trainings share.
        seed: Of everything that is drawn.
        validate: Scores the descriptor at an image size, at each stage's end.
        watch: Returns further columns of the curve after each epoch; nothing depends on them.
        labels: [len(classes)], the class of each image, 0 … C − 1; without them every image is its own class.
        name: Models of other names, and the stages of one, begin with other weights and see other edits of an image.
        embedding: How the trained model will embed: a whitening is learnt at its size and exponent. Without it the model's own.

    Raises:
        UserError: Too few images, a state that cannot be read, a loss that is NaN or infinite, a lost process, or a full disk.
    """
    training, progress, state = begin_training(settings, classes, overlays, folder, cache, seed, validate, watch, labels, name)
    fabric, descriptor, stages = training.fabric, training.descriptor, settings.stages
    unlabelled = find_unlabelled(training)
    shown = embedding or settings.embedding or EmbeddingSettings()
    with report_lost_process("training"), choose_algorithms(settings.deterministic):
        if not state and settings.descriptor.weights != "none":
            write_start(folder, training.validate(stages[0].image_size), stages[0].image_size, fabric)
        if progress.stage == len(stages):
            restore_checkpoint(folder, descriptor, stages, fabric)
        if progress.stage == len(stages) and settings.descriptor.whiten:
            fabric.print("  the training is finished; its whitening is fitted again, as images are embedded now", flush=True)
            _whiten_again(training, unlabelled, shown)
        elif progress.stage < len(stages):
            device = describe_device(fabric.device)
            threads = f", {torch.get_num_threads()} threads compute" if fabric.device.type == "cpu" else ""
            arranged = f" ({descriptor.memory_format})".replace("torch.", "") if fabric.device.type == "cuda" else ""
            fabric.print(
                f"  trains on {device}{arranged}; {training.workers} workers edit images{threads}, {usable_cores()} cores",
                flush=True,
            )
        while progress.stage < len(stages):
            size = stages[progress.stage].image_size
            rest, learner = _learn_stage(training, progress, state)
            progress = Progress(progress.stage + 1, step=progress.step)
            if settings.descriptor.whiten and progress.stage == len(stages):
                learn_whitening(descriptor, unlabelled, settings.workers, shown, size)
            if fabric.global_rank == 0:
                write_stage(folder, rest, learner, size)
            state = {"descriptor": descriptor.state_dict()}
            save_state(folder, training.identity, progress, state, fabric)
            del learner  # memory for the validation, and for the next stage's class matrix
            _validate_stage(training, rest[-1], size)
    return stage_checkpoint(folder, len(stages))


def _learn_stage(training: Training, progress: Progress, state: dict[str, Any]) -> tuple[list[EpochRow], Learner]:
    """Learn one stage from where `progress` stands to its end; its rows that are not yet written, and what learnt."""
    settings, fabric, descriptor = training.settings, training.fabric, training.descriptor
    stage, class_of = settings.stages[progress.stage], training.class_of
    size = round(stage.image_size * WORKING_SCALE)
    with fabric.rank_zero_first():
        squares, others = (
            cache_images(images, size, training.cache, settings.cache, training.workers)
            for images in (training.classes, training.overlays)
        )
    if (progress.stage, progress.epoch, progress.batch) == (0, 0, 0):
        report_unreadable(squares, fabric.print)
    rows = choose_rows(stage.classes, squares, class_of)
    if settings.compile:
        torch.compiler.reset()  # what was compiled for another image size counts towards a bound on compiling
    with report_lack_of_memory(_work_of(stage, progress.stage, rows), MEMORY_REMEDY):
        seed = derived_seed(training.seed, training.identity[DRAWN_FOR], progress.stage)  # of the order and the edits
        goes_on = bool(progress.epoch or progress.batch)
        torch.manual_seed(seed)  # the objective begins the same on all processes
        objective = build_objective(settings, descriptor, 1 + max(class_of[row] for row in rows), training.seed)
        learner = build_learner(fabric, descriptor, training.network, objective, settings, stage)
        torch.manual_seed(seed + progress.stage * (fabric.world_size - 1) + fabric.global_rank)
        edited = build_edited_images(settings.edits_of(stage), stage.image_size, squares, others, rows, training.labelled, seed)
        if not (progress.stage or goes_on) and settings.descriptor.weights != "none":
            check_modes(training, squares, rows, stage.image_size)
        if goes_on:
            learner.restore(state)
        elif progress.stage > 0 or settings.descriptor.weights != "none":  # an untrained backbone has no centroids
            started = time.monotonic()
            rebuild_class_rows(settings, stage, learner, squares, edited, rows, class_of)
            progress.seconds = time.monotonic() - started
        batches = build_batches(settings, stage, rows, class_of, progress, seed, fabric)
        count = len({class_of[row] for row in rows})
        watch = training.watch and partial(training.watch, stage.image_size)
        run = StageRun(
            settings=settings,
            stage=stage,
            learner=learner,
            edited=edited,
            batches=batches,
            class_of=class_of,
            classes=count,
            folder=training.folder,
            identity=training.identity,
            watch=watch,
        )
        ended = run_stage(run, progress)
        if fabric.global_rank == 0:
            batch = max(1, stage.batch_size // fabric.world_size)
            vectors = embed_classes(descriptor, squares, rows, class_of, stage.image_size, batch)
            ended[-1].logs.update(measure_collapse(vectors))
        return ended, learner


def _validate_stage(training: Training, last: EpochRow, image_size: int) -> None:
    """Score a stage after all is written, so that what fails here costs this figure only; report how the stage ended."""
    score = training.validate(image_size)
    last = replace(last, validation=score)
    troubles = find_troubles(last, read_rows(training.folder))
    if score is not None or (troubles and training.fabric.global_rank == 0):
        last = replace(last, warning=" ".join(troubles))
        record_validation(training.folder, last)
        write_checkpoint(training.folder, last, training.descriptor, image_size)
    report_end(last, training.fabric.print)
    for trouble in troubles:
        training.fabric.print(f"  warning: {trouble}", flush=True)


def _whiten_again(training: Training, unlabelled: ImageSet, embedding: EmbeddingSettings) -> None:
    """Fit the whitening of a finished training to how its vectors are embedded now, in its last checkpoint."""
    path = stage_checkpoint(training.folder, len(training.settings.stages))
    found = load_descriptor(path)
    learn_whitening(training.descriptor, unlabelled, training.settings.workers, embedding, found.image_size)
    score = training.validate(found.image_size)
    if training.fabric.global_rank == 0:
        notes = found.notes if score is None else found.notes | {"validation": score}
        save_descriptor(path, training.descriptor, found.image_size, notes)
    training.fabric.barrier()


def _work_of(stage: StageSettings, number: int, rows: list[int]) -> str:
    """Describe what stage `number`, from 0, was doing when memory ran out."""
    sizes = f"batch_size {stage.batch_size}, image_size {stage.image_size}, {len(rows):,} images"
    return f"while stage {number + 1} trained ({sizes})"
