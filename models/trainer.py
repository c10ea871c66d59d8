"""Training one model through its drip stages: visible, resumable, the same whatever the number of workers."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import EditedImages, EpochBatches, normalized, overlay_material
from augmentations.schedule import IntensitySchedule
from augmentations.settings import AugmentationSettings
from data.cache import SquareImages, cached_squares
from data.errors import UserError
from data.images import ImageSet
from models.checkpoint import save_descriptor
from models.curve import EpochRow, append_rows
from models.descriptor import Descriptor
from models.device import autocast, best_device
from models.drip import class_centroids
from models.learner import Learner, Progress, load_progress, restore_learner, save_state, training_identity
from models.objectives.arcface import ArcFace
from models.schedule import EpochSchedule, build_optimizer
from models.settings import ModelSettings, StageSettings

WORKING_SCALE = 1.5  # images are edited larger than they are learnt from, so that crops keep detail
SAVE_EVERY = 30.0  # seconds between training states, at the end of an epoch: what a killed run loses at most
Validate = Callable[[Descriptor, int], float]


def train_model(
    settings: ModelSettings,
    classes: ImageSet,
    overlays: ImageSet,
    folder: Path,
    cache: Path,
    seed: int,
    validate: Validate | None = None,
) -> Path:
    """Train from the last finished epoch in `folder` to the end; returns the path of the last stage's checkpoint.

    Writes `stage-<n>.safetensors`, the training state, `curve.csv` and TensorBoard files. `validate` scores the descriptor at an
    image size, at each stage's end. UserError: too few images, a state that cannot be read, a loss that is not a number.
    """
    _tell_class_count(settings, len(classes))
    torch.manual_seed(seed)
    descriptor = Descriptor(settings.descriptor)
    identity = training_identity(settings, classes, overlays, seed)
    progress = load_progress(folder, identity, descriptor)
    descriptor.to(best_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]
    while progress.stage < len(settings.stages):
        stage = settings.stages[progress.stage]
        size = round(stage.image_size * WORKING_SCALE)
        squares, others = (
            cached_squares(images, size, cache, settings.cache, settings.workers) for images in (classes, overlays)
        )
        if progress.stage == 0 and progress.epoch == 0:
            _tell_unreadable(squares)
        learner, edited, rows = _start_stage(settings, stage, descriptor, squares, others, progress, seed, folder)
        *pending, last = _run_stage(settings, stage, learner, edited, rows, progress, seed, folder, identity)
        score = validate(descriptor, stage.image_size) if validate else None
        append_rows(folder, [*pending, replace(last, validation=score)])
        notes = {"stage": last.stage, "classes": len(rows), "loss": last.loss, "validation": score, "ended_by": last.ended_by}
        save_descriptor(folder / f"stage-{last.stage}.safetensors", descriptor, stage.image_size, notes)
        progress.stage, progress.epoch, progress.seconds = progress.stage + 1, 0, 0.0
        save_state(folder, identity, progress, descriptor, None)
        told = "" if score is None else f", µAP on synthetic queries {score:.3f}"
        print(f"  stage {last.stage}: {len(rows)} classes, loss {last.loss:.2f}, ended by {last.ended_by}{told}", flush=True)
    return folder / f"stage-{len(settings.stages)}.safetensors"


def _tell_unreadable(squares: SquareImages) -> None:
    if squares.problems:
        image_id, problem = next(iter(squares.problems.items()))
        print(
            f"  {len(squares.problems)} of {len(squares)} training images are left out, the first: {image_id} {problem}",
            flush=True,
        )


def _tell_class_count(settings: ModelSettings, available: int) -> None:
    wanted = settings.stages[0].classes
    if available < 2:
        raise UserError(f"{available} training images are left as classes; training needs two at least. Add training images.")
    if wanted is not None and available < wanted:
        print(
            f"  the first stage wants {wanted} classes, but there are {available} training images for them: it takes all, and no "
            "stage grows. Lower the stages' classes in the recipe or add images (extra_classes)."
        )


def _start_stage(
    settings: ModelSettings,
    stage: StageSettings,
    descriptor: Descriptor,
    squares: SquareImages,
    others: SquareImages,
    progress: Progress,
    seed: int,
    folder: Path,
) -> tuple[Learner, EditedImages, list[int]]:
    """The learner with its class matrix, rebuilt from centroids or restored; the edited images; the rows that are classes."""
    count = min(stage.classes or len(squares), len(squares))
    rows = [row for row in squares.readable() if row < count]
    if len(rows) < 2:
        raise UserError(f"{len(rows)} of {count} training images can be read; training needs two at least.")
    edits = AugmentationSettings(family=settings.edits, intensity=stage.intensity, extra=settings.extra_edits)
    end = stage.intensity if stage.last_intensity is None else stage.last_intensity
    rising = IntensitySchedule(stage.intensity, end, stage.epochs)
    material = overlay_material(squares, others, count)
    edited = EditedImages(squares, edits, stage.image_size, seed, material, rising)
    device = best_device()
    torch.manual_seed(seed + progress.stage)
    objective = ArcFace(settings.descriptor.dimensions, count, settings.objective).to(device)
    from_start = progress.stage == 0 and settings.descriptor.weights == "none"
    if progress.epoch == 0 and not from_start:  # an untrained backbone has no centroids worth the name
        clean = EditedImages(squares, AugmentationSettings(family="none"), stage.image_size, seed)
        centroids = class_centroids(descriptor, clean, edited, rows, 128, settings.workers, settings.precision)
        with torch.no_grad():
            objective.matrix[rows] = centroids
    optimizer = build_optimizer(descriptor, objective, settings.optimizer, stage.learning_rate_factor)
    scaler = GradScaler(device.type, enabled=settings.precision == "16")
    learner = Learner(descriptor, objective, optimizer, EpochSchedule(optimizer, settings.scheduler), scaler)
    if progress.epoch > 0:
        restore_learner(folder, learner)
    return learner, edited, rows


def _run_stage(
    settings: ModelSettings,
    stage: StageSettings,
    learner: Learner,
    edited: EditedImages,
    rows: list[int],
    progress: Progress,
    seed: int,
    folder: Path,
    identity: str,
) -> list[EpochRow]:
    """Epochs until the stage ends by loss, minutes or epochs; the rows that are not yet written, the last epoch's last."""
    batches = EpochBatches(rows, stage.batch_size, progress.epoch, stage.epochs, seed + progress.stage)
    steps = batches.batches_per_epoch()
    loader = DataLoader(
        edited,
        batch_sampler=batches,
        num_workers=settings.workers,
        pin_memory=learner.device.type == "cuda",
        prefetch_factor=4 if settings.workers else None,
    )
    stream = iter(loader)
    label = f"stage {progress.stage + 1}/{len(settings.stages)}"
    learner.descriptor.train()
    pending: list[EpochRow] = []
    saved = time.monotonic()
    while True:
        started = time.monotonic()
        loss, cosine = _run_epoch(settings, stage, learner, stream, steps, progress, label, seed, edited.images.ids)
        learner.schedule.after_epoch(loss)
        spent = time.monotonic() - started
        progress.epoch, progress.step, progress.seconds = progress.epoch + 1, progress.step + steps, progress.seconds + spent
        row = EpochRow(
            stage=progress.stage + 1,
            epoch=progress.epoch,
            step=progress.step,
            classes=len(rows),
            intensity=stage.intensity,
            image_size=stage.image_size,
            loss=loss,
            cosine_to_own_class=cosine,
            learning_rate=learner.optimizer.param_groups[0]["lr"],
            images_per_second=len(rows) / spent,
            seconds=progress.seconds,
            ended_by=_ended_by(stage, progress, loss),
        )
        pending.append(row)
        if row.ended_by:
            return pending
        if time.monotonic() - saved > SAVE_EVERY:
            append_rows(folder, pending)
            save_state(folder, identity, progress, learner.descriptor, learner)
            pending, saved = [], time.monotonic()


def _ended_by(stage: StageSettings, progress: Progress, loss: float) -> str:
    if stage.stop_loss is not None and loss < stage.stop_loss:
        return "loss"
    if stage.minutes is not None and progress.seconds >= 60 * stage.minutes:
        return "minutes"
    return "epochs" if progress.epoch >= stage.epochs else ""


def _run_epoch(
    settings: ModelSettings,
    stage: StageSettings,
    learner: Learner,
    stream: Iterator[tuple[Tensor, Tensor]],
    steps: int,
    progress: Progress,
    label: str,
    seed: int,
    ids: list[str],
) -> tuple[float, float]:
    """Mean loss and mean cosine to the own class over one epoch."""
    total, cosine = 0.0, 0.0
    with tqdm(total=steps, desc=f"{label} epoch {progress.epoch + 1}", unit="step", leave=False, mininterval=1) as bar:
        for step in range(steps):
            pixels, labels = next(stream)
            learner.schedule.before_step(progress.epoch + step / steps)
            loss, logs = _step(settings, learner, pixels, labels)
            if not math.isfinite(loss):
                named = ", ".join(ids[row] for row in labels[:5].tolist())
                raise UserError(
                    f"the loss is {loss} at step {progress.step + step + 1} (stage {progress.stage + 1}, images {named}, …). "
                    "The last good state is kept: lower optimizer.learning_rate or clip_norm in the recipe, or use precision 32."
                )
            total, cosine = total + loss, cosine + logs["cosine_to_own_class"]
            bar.update()
            bar.set_postfix(loss=f"{total / (step + 1):.2f}", refresh=False)
    return total / steps, cosine / steps


def _step(settings: ModelSettings, learner: Learner, pixels: Tensor, labels: Tensor) -> tuple[float, dict[str, float]]:
    images = normalized(pixels.to(learner.device, non_blocking=True), learner.descriptor.mean, learner.descriptor.std)
    with autocast(learner.device, settings.precision):
        output = learner.objective(learner.descriptor(images), labels.to(learner.device))
    learner.optimizer.zero_grad(set_to_none=True)
    learner.scaler.scale(output.loss).backward()
    learner.scaler.unscale_(learner.optimizer)
    parameters = [*learner.descriptor.parameters(), *learner.objective.parameters()]
    nn.utils.clip_grad_norm_(parameters, settings.optimizer.clip_norm)
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    return float(output.loss.detach()), output.logs
