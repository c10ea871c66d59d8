"""Training one model through its drip stages: visible, resumable, the same whatever the number of workers or processes.

A stage begins with the whole class matrix rebuilt from the backbone's own centroids (drip.py), runs until its loss threshold,
a plateau or its budget ends it (stage.py), and leaves a checkpoint.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from augmentations.composition import check_probabilities
from augmentations.dataset import EditedImages, normalize_pixels, overlay_material
from augmentations.domains import DOMAINS
from augmentations.randomness import derived_seed
from augmentations.schedule import IntensitySchedule
from augmentations.settings import AugmentationSettings
from data.cache import CachedImages, cache_images
from data.errors import UserError
from data.images import ImageSet
from data.process import choose_workers, usable_cores
from models.device import choose_algorithms, describe_device, report_lack_of_memory
from models.distributed import report_lost_process
from models.network.checkpoint import load_descriptor, save_descriptor
from models.network.descriptor import Descriptor, check_image_sizes
from models.objectives.base import Objective
from models.objectives.koleo import Koleo
from models.objectives.svmax import Svmax
from models.settings import EmbeddingSettings, ModelSettings, StageSettings
from models.training.batches import build_batches
from models.training.class_counts import check_class_counts, repeats_stage_before
from models.training.class_rows import freeze_class_rows, rebuild_class_rows, take_teachers_rows
from models.training.curve import EpochRow, read_rows, record_validation, remove_curve
from models.training.files import stage_checkpoint
from models.training.final_whitening import check_whitening, choose_whitening_images, learn_whitening
from models.training.launch import launch_fabric
from models.training.learner import Learner, build_learner, set_up_network
from models.training.modes import LEAST_AGREEMENT, measure_agreement
from models.training.stage import StageRun, run_stage
from models.training.stage_end import (
    find_troubles,
    leave_out_stage,
    report_end,
    restore_checkpoint,
    start_row,
    write_checkpoint,
    write_stage,
    write_start,
)
from models.training.state import (
    ASPECT,
    DRAWN_FOR,
    Identity,
    Progress,
    identify_training,
    load_state,
    restore_identity,
    save_state,
)

WORKING_SCALE = 1.5  # images are edited larger than they are learnt from, so that crops keep detail
MEMORY_REMEDY = (
    "Lower batch_size (with optimizer.accumulate the step stays as large) or image_size of the stage, use precision bf16, "
    "class_kind adafactor or more processes; `--plan` estimates what fits. A changed recipe trains from the start; the same one "
    "goes on from the last saved state where more memory is free."
)
Validate = Callable[[Descriptor, int], float]


def train_model(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    folder: Path,
    cache: Path,
    seed: int,
    validate: Validate | None = None,
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
        folder: Where the training keeps its files.
        cache: Folder of resized images, which trainings share.
        seed: Of everything that is drawn.
        validate: Scores the descriptor at an image size, at each stage's end.
        labels: [len(classes)], the class of each image, 0 … C − 1; without them every image is a class of its own.
        name: Models of other names, and the stages of one, begin with other weights and see other edits of an image.
        embedding: How the trained model will embed: a whitening is learnt at its size and exponent. Without it the model's own.

    Returns:
        The path of the last stage's checkpoint.

    Raises:
        UserError: Too few images, a state that cannot be read, a loss that is NaN or infinite, a lost process, or a full disk.
    """
    training, progress, state = _begin(settings, classes, overlays, folder, cache, seed, validate, labels, name)
    fabric, descriptor, stages = training.fabric, training.descriptor, settings.stages
    available = len(set(training.class_of))
    unlabelled = _find_unlabelled(training)
    shown = embedding or settings.embedding or EmbeddingSettings()
    with report_lost_process("training"), choose_algorithms(settings.deterministic):
        if not state and settings.descriptor.weights != "none":
            write_start(folder, training.validate(stages[0].image_size), settings, fabric)
        if progress.stage == len(stages):
            restore_checkpoint(folder, descriptor, stages, fabric)
        if progress.stage == len(stages) and settings.descriptor.whiten:
            fabric.print("  the training is finished; its whitening is fitted again, as images are embedded now", flush=True)
            _whiten_again(training, unlabelled, shown)
        elif progress.stage < len(stages):
            device = describe_device(fabric.device)
            threads = f", {torch.get_num_threads()} threads compute" if fabric.device.type == "cpu" else ""
            fabric.print(
                f"  trains on {device}; {training.workers} workers edit images{threads}, {usable_cores()} cores", flush=True
            )
        while progress.stage < len(stages):
            if not (progress.epoch or progress.batch) and repeats_stage_before(stages, progress.stage, available):
                progress = leave_out_stage(folder, progress, fabric)
                save_state(folder, training.identity, progress, state, fabric)
                continue
            size = stages[progress.stage].image_size
            rest, learner = _learn_stage(training, progress, state)
            progress = Progress(progress.stage + 1, step=progress.step)
            left = range(progress.stage, len(stages))
            if settings.descriptor.whiten and all(repeats_stage_before(stages, index, available) for index in left):
                learn_whitening(descriptor, unlabelled, settings.workers, shown, size)
            if fabric.global_rank == 0:
                write_stage(folder, rest, learner, size)
            state = {"descriptor": descriptor.state_dict()}
            save_state(folder, training.identity, progress, state, fabric)
            del learner  # memory for the validation, and for the next stage's class matrix
            _validate_stage(training, rest[-1], size)
    return stage_checkpoint(folder, len(stages))


@dataclass(frozen=True)
class _Training:
    """What the stages of a training share.

    Attributes:
        settings: Settings of the model.
        fabric: Processes, device and precision.
        descriptor: The network that learns.
        network: The same, as the processes train it.
        classes: The images to learn from.
        overlays: Images that edits paste into others.
        class_of: Class of each image to learn from.
        labelled: Whether the classes come from labels.
        folder: Where the training keeps its files.
        cache: Folder of resized images.
        seed: Of everything that is drawn.
        identity: What the training learns from and how.
        workers: Processes that edit images.
        validate: µAP of the descriptor at an image size, on the first process.
    """

    settings: ModelSettings
    fabric: Fabric
    descriptor: Descriptor
    network: Any
    classes: ImageSet
    overlays: ImageSet
    class_of: list[int]
    labelled: bool
    folder: Path
    cache: Path
    seed: int
    identity: Identity
    workers: int
    validate: Callable[[int], float | None]


def _begin(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    folder: Path,
    cache: Path,
    seed: int,
    validate: Validate | None,
    labels: NDArray[np.int64] | None,
    name: str,
) -> tuple[_Training, Progress, dict[str, Any]]:
    """Build the network; what the stages share, where the training stands, and the saved state, {} of a new one."""
    fabric = launch_fabric(settings.precision)
    class_of = list(range(len(classes))) if labels is None else [int(label) for label in labels]
    check_class_counts(settings, len(set(class_of)), fabric.print)
    for stage in settings.stages:
        check_probabilities(settings.edits_of(stage, stage.intensity))
    wanted = identify_training(settings, classes, overlays, None if labels is None else class_of, seed, name)
    identity = restore_identity(folder, wanted, settings.aspect)
    saved = load_state(folder, identity, fabric)
    progress, state = saved or (Progress(), {})
    if not saved:
        identity = wanted
    torch.manual_seed(derived_seed(seed, identity[DRAWN_FOR]) if DRAWN_FOR in identity else seed)
    descriptor = Descriptor(settings.descriptor, load_weights=not state)  # whose file may have gone since
    if not state and fabric.global_rank == 0:
        remove_curve(folder)
    if state:
        descriptor.load_state_dict(state["descriptor"])
    check_image_sizes(descriptor, (stage.image_size for stage in settings.stages))
    training = _Training(
        settings=settings,
        fabric=fabric,
        descriptor=descriptor,
        network=set_up_network(fabric, descriptor, settings.compile),
        classes=classes,
        overlays=overlays,
        class_of=class_of,
        labelled=labels is not None,
        folder=folder,
        cache=cache,
        seed=seed,
        identity=identity,
        workers=choose_workers(settings.workers),
        validate=partial(_validate, fabric, validate, descriptor),
    )
    return training, progress, state


def _find_unlabelled(training: _Training) -> ImageSet:
    """The images that a whitening is fitted on, enough of them; none where the descriptor does not whiten."""
    settings, classes = training.settings, training.classes
    if not settings.descriptor.whiten:
        return ImageSet([], [])
    learnt_last = settings.stages[-1].classes or len(training.class_of)
    learnt = classes.select([classes.ids[row] for row, label in enumerate(training.class_of) if label < learnt_last])
    unlabelled = choose_whitening_images(settings, training.seed, training.overlays, learnt)
    check_whitening(training.descriptor, len(unlabelled))
    return unlabelled


def _learn_stage(training: _Training, progress: Progress, state: dict[str, Any]) -> tuple[list[EpochRow], Learner]:
    """Learn one stage from where `progress` stands to its end; its rows that are not yet written, and what learnt."""
    settings, fabric, descriptor = training.settings, training.fabric, training.descriptor
    stage, class_of = settings.stages[progress.stage], training.class_of
    size = round(stage.image_size * WORKING_SCALE)
    with fabric.rank_zero_first():
        squares, others = (
            cache_images(images, size, training.cache, settings.cache, training.workers, training.identity.get(ASPECT, "square"))
            for images in (training.classes, training.overlays)
        )
    if (progress.stage, progress.epoch, progress.batch) == (0, 0, 0):
        _report_unreadable(squares, fabric.print)
    rows = _rows_of_stage(stage, squares, class_of)
    if settings.compile:
        torch.compiler.reset()  # of another image size, or the stage would meet the bound on compiling again
    with report_lack_of_memory(_work_of(stage, progress.stage, rows), MEMORY_REMEDY):
        order, edits = _seeds_of_stage(training.identity, training.seed, progress.stage)
        torch.manual_seed(order)  # the objective begins the same on all processes
        objective = _build_objective(settings, descriptor, 1 + max(class_of[row] for row in rows), training.seed)
        if stage.class_rows == "teacher":
            freeze_class_rows(objective)
        learner = build_learner(fabric, descriptor, training.network, objective, settings, stage)
        torch.manual_seed(order + progress.stage * (fabric.world_size - 1) + fabric.global_rank)
        edited = _build_edited_images(settings, stage, squares, others, rows, training.labelled, edits)
        begins = not (progress.stage or progress.epoch or progress.batch)
        if begins and settings.descriptor.weights != "none":
            _check_modes(training, squares, rows, stage.image_size)
        if progress.epoch or progress.batch:
            learner.restore(state)
        elif stage.class_rows == "teacher":
            take_teachers_rows(settings, fabric, learner, training.classes, training.folder, rows, class_of)
        elif progress.stage > 0 or settings.descriptor.weights != "none":  # an untrained backbone has no centroids
            started = time.monotonic()
            rebuild_class_rows(settings, stage, learner, squares, edited, rows, class_of)
            progress.seconds = time.monotonic() - started
        batches = build_batches(settings, stage, rows, class_of, progress, order, fabric)
        count = len({class_of[row] for row in rows})
        validate = partial(training.validate, stage.image_size)
        run = StageRun(settings, stage, learner, edited, batches, class_of, count, training.folder, training.identity, validate)
        ended = run_stage(run, progress)
        if learner.average is not None:
            learner.average.apply()
        return ended, learner


def _check_modes(training: _Training, squares: CachedImages, rows: list[int], image_size: int) -> None:
    """Warn where the weights that training starts from embed otherwise than they learn."""
    descriptor, device = training.descriptor, training.fabric.device
    clean = EditedImages(squares, AugmentationSettings(family="none"), image_size, training.seed)
    pixels = torch.stack([clean[0, row, 0][0] for row in rows[:64]])
    cosine = measure_agreement(descriptor, normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std))
    if cosine >= LEAST_AGREEMENT:
        return
    trouble = (
        f"the start's vectors while it learns and when it embeds disagree (mean cosine {cosine:.2f}): the statistics of its "
        "batch normalisations are not those of its weights, as where they were folded into the convolutions. Take other "
        "weights, or train with descriptor.frozen_statistics: true."
    )
    training.fabric.print(f"  warning: {trouble}", flush=True)
    started = read_rows(training.folder)
    if started and training.fabric.global_rank == 0:
        record_validation(training.folder, start_row(float(started[0]["validation"]), image_size, trouble))


def _validate_stage(training: _Training, last: EpochRow, image_size: int) -> None:
    """Score a stage after all is written, so that what fails here costs this figure only; report how the stage ended."""
    score = training.validate(image_size)
    last = replace(last, validation=score)
    troubles = find_troubles(last, read_rows(training.folder))
    if score is not None or (troubles and training.fabric.global_rank == 0):
        last = replace(last, warning=" ".join(troubles))
        record_validation(training.folder, last)
        write_checkpoint(training.folder, last, training.descriptor, image_size)
    report_end(last, training.settings.stages[last.stage - 1], training.fabric.print)
    for trouble in troubles:
        training.fabric.print(f"  warning: {trouble}", flush=True)


def _whiten_again(training: _Training, unlabelled: ImageSet, embedding: EmbeddingSettings) -> None:
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


def _seeds_of_stage(identity: Identity, seed: int, stage: int) -> tuple[int, int]:
    """Return the seeds of the images' order and of their edits.

    A training that began without DRAWN_FOR has the same edits in all stages.
    """
    if DRAWN_FOR not in identity:
        return seed + stage, seed
    own = derived_seed(seed, identity[DRAWN_FOR], stage)
    return own, own


def _build_objective(settings: ModelSettings, descriptor: Descriptor, classes: int, seed: int) -> Objective:
    """The recipe's objective with what stands beside it; s of SVMax is logged with every one."""
    dimensions = descriptor.dimensions // (len(DOMAINS) if settings.descriptor.domains else 1)
    objective = Svmax(settings.objective.build(dimensions, classes, seed), settings.svmax)
    return objective if settings.koleo is None else Koleo(objective, settings.koleo.weight)


def _validate(fabric: Fabric, validate: Validate | None, descriptor: Descriptor, image_size: int) -> float | None:
    """The first process scores while the others wait; None, with a message, where that fails: training does not depend on it."""
    score = None
    if validate and fabric.global_rank == 0:
        try:
            score = validate(descriptor, image_size)
        except Exception as error:  # whatever a search or a full card raises
            reason = (str(error).splitlines() or [""])[0]
            fabric.print(f"  the validation failed, training goes on without it: {type(error).__name__}: {reason}", flush=True)
        if fabric.device.type == "cuda":
            torch.cuda.empty_cache()  # of other batch sizes than the training's
    descriptor.train()
    fabric.barrier()
    return score


def _rows_of_stage(stage: StageSettings, squares: CachedImages, class_of: list[int]) -> list[int]:
    """The images that are learnt from: those of the stage's first classes that can be read."""
    count = stage.classes or len(squares)
    rows = [row for row in squares.readable_rows() if class_of[row] < count]
    if len({class_of[row] for row in rows}) < 2:
        raise UserError(
            f"the stage's {min(count, 1 + max(class_of))} classes have {len(rows)} training images that can be read; "
            "training needs two classes at least."
        )
    return rows


def _build_edited_images(
    settings: ModelSettings,
    stage: StageSettings,
    squares: CachedImages,
    others: CachedImages,
    rows: list[int],
    labelled: bool,
    seed: int,
) -> EditedImages:
    edits = settings.edits_of(stage, stage.intensity)
    end = stage.intensity if stage.last_intensity is None else stage.last_intensity
    rising = IntensitySchedule(stage.intensity, end, stage.epochs)
    material = overlay_material(squares, others, len(squares) if labelled else rows[-1] + 1)
    return EditedImages(squares, edits, stage.image_size, seed, material, rising, bool(settings.sampling.clean))


def _report_unreadable(squares: CachedImages, report: Callable[..., Any]) -> None:
    if squares.problems:
        image_id, problem = next(iter(squares.problems.items()))
        report(
            f"  {len(squares.problems)} of {len(squares)} training images are left out, the first: {image_id} {problem}",
            flush=True,
        )
