"""Training one model through its drip stages: visible, resumable, the same whatever the number of workers or processes.

A stage begins with the whole class matrix rebuilt from the backbone's own centroids (drip.py), runs until its loss threshold,
a plateau or its budget ends it (stage.py), and leaves a checkpoint.
"""

import math
import shutil
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
from data.files import whole_file
from data.images import ImageSet
from data.process import choose_workers, usable_cores
from models.device import choose_algorithms, describe_device, report_lack_of_memory
from models.distributed import report_lost_process, share_buffers
from models.network.checkpoint import load_descriptor, save_descriptor
from models.network.descriptor import Descriptor, check_image_sizes
from models.objectives.base import Objective
from models.objectives.koleo import Koleo
from models.objectives.svmax import Svmax
from models.settings import EmbeddingSettings, ModelSettings, StageSettings
from models.training.batches import build_batches
from models.training.ceiling import clock_notice
from models.training.class_counts import check_class_counts, repeats_stage_before
from models.training.classifier import save_classifier
from models.training.curve import EpochRow, append_rows, read_rows, record_validation, remove_curve
from models.training.drip import EDITED_PER_CLASS, compute_centroids
from models.training.files import stage_checkpoint
from models.training.final_whitening import check_whitening, choose_whitening_images, learn_whitening
from models.training.launch import launch_fabric
from models.training.learner import Learner, build_learner, set_up_network
from models.training.modes import LEAST_AGREEMENT, measure_agreement
from models.training.stage import StageRun, run_stage
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
from models.training.teacher import compute_prototypes, load_teacher_vectors

COLLAPSE_SHARE = (
    0.05  # share of the way from the smallest possible mean singular value to the largest: vectors below it have collapsed
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
    fabric = launch_fabric(settings.precision)
    class_of = list(range(len(classes))) if labels is None else [int(label) for label in labels]
    available = len(set(class_of))
    check_class_counts(settings, available, fabric.print)
    for stage in settings.stages:
        check_probabilities(settings.edits_of(stage, stage.intensity))
    labelled = None if labels is None else class_of
    wanted = identify_training(settings, classes, overlays, labelled, seed, name)
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
    learnt_last = settings.stages[-1].classes or len(class_of)
    unlabelled = ImageSet([], [])
    if settings.descriptor.whiten:
        learnt = classes.select([classes.ids[row] for row, label in enumerate(class_of) if label < learnt_last])
        unlabelled = choose_whitening_images(settings, seed, overlays, learnt)
        check_whitening(descriptor, len(unlabelled))
    check_image_sizes(descriptor, (stage.image_size for stage in settings.stages))
    network = set_up_network(fabric, descriptor, settings.compile)
    workers = choose_workers(settings.workers)
    with report_lost_process("training"), choose_algorithms(settings.deterministic):
        if not state and settings.descriptor.weights != "none":
            _write_start(folder, _validate(fabric, validate, descriptor, settings.stages[0].image_size), settings, fabric)
        if progress.stage < len(settings.stages):
            device = describe_device(fabric.device)
            fabric.print(f"  trains on {device}; {workers} workers edit images, {usable_cores()} cores", flush=True)
        training = _Training(
            settings=settings,
            fabric=fabric,
            descriptor=descriptor,
            network=network,
            classes=classes,
            overlays=overlays,
            class_of=class_of,
            labelled=labels is not None,
            folder=folder,
            cache=cache,
            seed=seed,
            identity=identity,
            workers=workers,
            validate=partial(_validate, fabric, validate, descriptor),
        )
        if progress.stage == len(settings.stages) and settings.descriptor.whiten:
            shown = embedding or settings.embedding or EmbeddingSettings()
            fabric.print("  the training is finished; its whitening is fitted again, as images are embedded now", flush=True)
            _whiten_again(training, unlabelled, shown)
        while progress.stage < len(settings.stages):
            if not (progress.epoch or progress.batch) and repeats_stage_before(settings.stages, progress.stage, available):
                progress = _leave_out_stage(folder, progress, fabric)
                save_state(folder, identity, progress, state, fabric)
                continue
            size = settings.stages[progress.stage].image_size
            rest, learner = _learn_stage(training, progress, state)
            progress = Progress(progress.stage + 1, step=progress.step)
            left = range(progress.stage, len(settings.stages))
            if settings.descriptor.whiten and all(repeats_stage_before(settings.stages, index, available) for index in left):
                shown = embedding or settings.embedding or EmbeddingSettings()
                learn_whitening(descriptor, unlabelled, settings.workers, shown, size)
            if fabric.global_rank == 0:
                _write_stage(folder, rest, learner, size)
            state = {"descriptor": descriptor.state_dict()}
            save_state(folder, identity, progress, state, fabric)
            del learner  # memory for the validation, and for the next stage's class matrix
            _validate_stage(training, rest[-1], size)
    return stage_checkpoint(folder, len(settings.stages))


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
            _freeze_class_matrix(objective)
        learner = build_learner(fabric, descriptor, training.network, objective, settings, stage)
        torch.manual_seed(order + progress.stage * (fabric.world_size - 1) + fabric.global_rank)
        edited = _build_edited_images(settings, stage, squares, others, rows, training.labelled, edits)
        begins = not (progress.stage or progress.epoch or progress.batch)
        if begins and settings.descriptor.weights != "none":
            _check_modes(training, squares, rows, stage.image_size)
        if progress.epoch or progress.batch:
            learner.restore(state)
        elif stage.class_rows == "teacher":
            _take_teachers_rows(training, learner, rows)
        elif progress.stage > 0 or settings.descriptor.weights != "none":  # an untrained backbone has no centroids
            started = time.monotonic()
            _rebuild_class_matrix(settings, stage, learner, squares, edited, rows, class_of)
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
        record_validation(training.folder, _start_row(float(started[0]["validation"]), image_size, trouble))


def _validate_stage(training: _Training, last: EpochRow, image_size: int) -> None:
    """Score a stage after all is written, so that what fails here costs this figure only; report how the stage ended."""
    score = training.validate(image_size)
    last = replace(last, validation=score)
    troubles = find_troubles(last, read_rows(training.folder))
    if score is not None or (troubles and training.fabric.global_rank == 0):
        last = replace(last, warning=" ".join(troubles))
        record_validation(training.folder, last)
        _write_checkpoint(training.folder, last, training.descriptor, image_size)
    _report_end(last, training.settings.stages[last.stage - 1], training.fabric.print)
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


def _leave_out_stage(folder: Path, progress: Progress, fabric: Fabric) -> Progress:
    """A stage that would repeat the one before leaves the same checkpoint."""
    if fabric.global_rank == 0:
        with whole_file(stage_checkpoint(folder, progress.stage + 1)) as temporary:
            shutil.copyfile(stage_checkpoint(folder, progress.stage), temporary)
    return Progress(progress.stage + 1, step=progress.step)


def _work_of(stage: StageSettings, number: int, rows: list[int]) -> str:
    """Describe what stage `number`, from 0, was doing when memory ran out."""
    sizes = f"batch_size {stage.batch_size}, image_size {stage.image_size}, {len(rows):,} images"
    return f"while stage {number + 1} trained ({sizes})"


def _write_start(folder: Path, score: float | None, settings: ModelSettings, fabric: Fabric) -> None:
    """The weights that training starts from, as the curve's stage 0: what comes after has to be better."""
    if score is None or fabric.global_rank > 0:
        return
    size = settings.stages[0].image_size
    append_rows(folder, [_start_row(score, size)])
    fabric.print(f"  the start: µAP on synthetic queries {score:.3f} at {size} px, before anything is learnt", flush=True)


def _start_row(score: float, image_size: int, warning: str = "") -> EpochRow:
    return EpochRow(0, 0, 0, 0, 0.0, image_size, math.nan, 0.0, 0.0, 0.0, validation=score, ended_by="start", warning=warning)


def _write_stage(folder: Path, rows: list[EpochRow], learner: Learner, image_size: int) -> None:
    """The end of the stage's curve, the checkpoint and, where the objective has one, the classifier."""
    append_rows(folder, rows)
    classifier = learner.objective.linear_classifier()
    if classifier is not None:
        save_classifier(folder, classifier)
    _write_checkpoint(folder, rows[-1], learner.descriptor, image_size)


def _write_checkpoint(folder: Path, last: EpochRow, descriptor: Descriptor, image_size: int) -> None:
    """The weights with what the stage's last epoch says of them."""
    notes = {name: getattr(last, name) for name in ("stage", "classes", "loss", "ended_by", "validation")}
    save_descriptor(stage_checkpoint(folder, last.stage), descriptor, image_size, notes)


def _report_end(last: EpochRow, stage: StageSettings, report: Callable[..., Any]) -> None:
    scored = "" if last.validation is None else f", µAP on synthetic queries {last.validation:.3f}"
    report(f"  stage {last.stage}: {last.classes} classes, loss {last.loss:.2f}, ended by {last.ended_by}{scored}", flush=True)
    if notice := clock_notice(stage, last.stage, last.epoch, last.ended_by):
        report(f"  warning: {notice}", flush=True)


def find_troubles(last: EpochRow, rows: list[dict[str, str]]) -> list[str]:
    """Describe what a stage's end should warn of: vectors that collapse, and a stage that ends below an earlier one.

    Args:
        last: The stage's last epoch.
        rows: The curve so far, as text.
    """
    troubles = []
    lower, upper, spread = (last.logs.get(name) for name in ("singular_lower", "singular_upper", "mean_singular_value"))
    if lower is not None and upper is not None and spread is not None and spread < lower + COLLAPSE_SHARE * (upper - lower):
        troubles.append(
            f"vectors collapse in stage {last.stage} (mean singular value {spread:.3f}; {lower:.3f} of equal ones, {upper:.3f} "
            "at most): lower optimizer.learning_rate, begin with fewer classes and weaker edits, or use svmax."
        )
    before = [row for row in rows if int(row["stage"]) < last.stage and row["validation"]]
    best = max(before, key=lambda row: float(row["validation"]), default=None)
    if best is not None and last.validation is not None and last.validation < float(best["validation"]):
        named = "the start" if best["stage"] == "0" else f"stage {best['stage']}"
        troubles.append(
            f"stage {last.stage} ends at a µAP of {last.validation:.3f}, below the {float(best['validation']):.3f} of {named}: "
            "its class rows and edits were not learnt in its time, or what was known is lost. Give it more minutes, fewer "
            "classes, a lower intensity, or a learning rate that falls (last_learning_rate_factor)."
        )
    return troubles


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


def _rebuild_class_matrix(
    settings: ModelSettings,
    stage: StageSettings,
    learner: Learner,
    squares: CachedImages,
    edited: EditedImages,
    rows: list[int],
    class_of: list[int],
) -> None:
    """Every process rebuilds the rows that it holds."""
    matrix = learner.objective.class_matrix()
    if matrix is None:
        return
    share_buffers(learner.descriptor)  # on CPUs each process gathers statistics of its own: rows must come from one network
    own = [row for row in rows if class_of[row] in matrix.classes]
    clean = EditedImages(squares, AugmentationSettings(family="none"), stage.image_size, edited.seed)
    edits = EDITED_PER_CLASS if stage.centroid_edits is None else stage.centroid_edits
    labels = [class_of[row] for row in own]
    found, centroids = compute_centroids(
        learner.descriptor, clean, edited, own, labels, 128, choose_workers(settings.workers), settings.precision, edits
    )
    matrix.set_prototypes(found, centroids)


def _freeze_class_matrix(objective: Objective) -> None:
    """Its rows stay as they are set."""
    matrix = objective.class_matrix()
    if matrix is not None:
        matrix.parameter.requires_grad_(False)


def _take_teachers_rows(training: _Training, learner: Learner, rows: list[int]) -> None:
    """Give every process the teacher's vectors as the rows that it holds."""
    matrix = learner.objective.class_matrix()
    if matrix is None or training.settings.teacher is None:
        return
    with training.fabric.rank_zero_first():
        vectors = load_teacher_vectors(
            training.settings.teacher, training.classes, training.descriptor.dimensions, training.folder, training.workers
        )
    own = [row for row in rows if training.class_of[row] in matrix.classes]
    matrix.set_prototypes(*compute_prototypes(vectors, own, [training.class_of[row] for row in own]))


def _report_unreadable(squares: CachedImages, report: Callable[..., Any]) -> None:
    if squares.problems:
        image_id, problem = next(iter(squares.problems.items()))
        report(
            f"  {len(squares.problems)} of {len(squares)} training images are left out, the first: {image_id} {problem}",
            flush=True,
        )
