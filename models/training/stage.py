"""One stage of training: epochs until the loss, a plateau or the budget ends it."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.augmentations.dataset import EditedImages
from image_copies.augmentations.sampling import Batches
from image_copies.data.errors import UserError
from image_copies.data.process import choose_workers
from image_copies.models.distributed import sum_over_processes
from image_copies.models.training.curve import EpochRow, append_rows
from image_copies.models.training.learner import Figures, Learner, read_figures
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import StageSettings
from image_copies.models.training.state import Identity, Progress, WrittenState

SAVE_INTERVAL_SECONDS = 30.0  # plus the time of writing and 2 × STEPS_PER_CHECK steps: what a killed run loses
SAVING_PAUSE = 120.0  # times the duration of saving: a longer interval, since a million classes would be terabytes a day
LONGEST_INTERVAL_SECONDS = 600.0
STEPS_PER_CHECK = 8  # between checks of the clock and reads of figures from the device
STEPS_PER_MEASUREMENT = 8  # between figures that make the device synchronise
MIN_RELATIVE_FALL = 0.01  # of the loss, to count as falling
REMEDY = "The last good state is kept: lower optimizer.learning_rate or clip_norm in the recipe, or use precision 32."
LabelledBatches = Iterator[tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class StageRun:
    """What one stage runs with."""

    settings: ModelSettings
    stage: StageSettings
    learner: Learner
    edited: EditedImages
    batches: Batches  # this process's batches
    class_of: list[int]  # the class of each image, by row
    classes: int
    folder: Path
    identity: Identity
    watch: Callable[[nn.Linear | None], dict[str, float] | None] | None  # returns further columns of the curve likewise


class _Saver:
    """Saves the training state when it is time, on all processes together; one is written while training goes on."""

    def __init__(self, run: StageRun) -> None:
        self.run, self.saved, self.took = run, time.monotonic(), 0.0
        self.writing: WrittenState | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the last state that was saved count; after an error other processes may not come to that."""
        if kind is None or self.run.learner.fabric.world_size == 1:
            self.finish()

    def due(self) -> bool:
        """Whether it is time to save; a state that was written in the meantime is finished."""
        waited = time.monotonic() - self.saved
        written = self.writing is not None and self.writing.is_written()
        if self.writing is not None:
            self.took = waited
        late = waited > max(SAVE_INTERVAL_SECONDS, min(SAVING_PAUSE * self.took, LONGEST_INTERVAL_SECONDS))
        late, written = self.run.learner.fabric.broadcast((late, written))
        if written:
            self.finish()
        return late

    def save(self, progress: Progress, rows: list[EpochRow]) -> None:
        _check_weights(self.run, progress)
        fabric = self.run.learner.fabric
        self.finish()
        if fabric.global_rank == 0:
            append_rows(self.run.folder, rows)
        self.saved = time.monotonic()
        self.writing = WrittenState(self.run.folder, self.run.identity, progress, self.run.learner.state(), fabric)

    def finish(self) -> None:
        """Wait until the state that is being written, if any, counts."""
        writing, self.writing = self.writing, None
        if writing is not None:
            writing.finish()


def run_stage(run: StageRun, progress: Progress) -> list[EpochRow]:
    """Train from where `progress` stands, updated in place, to the stage's end; return the curve's rows not yet written.

    Raises:
        UserError: The loss or a weight becomes NaN or infinite, a process is lost, or the state cannot be written.
    """
    workers, fabric = choose_workers(run.settings.workers), run.learner.fabric
    loader = DataLoader(
        run.edited,
        batch_sampler=run.batches,
        num_workers=workers,
        pin_memory=fabric.device.type == "cuda",
        prefetch_factor=4 if workers else None,
        generator=torch.Generator(),  # otherwise, starting the loader would draw from the restored random state
    )
    classes = torch.tensor(run.class_of, device=fabric.device)
    stream: LabelledBatches = ((pixels, classes[rows.to(fabric.device, non_blocking=True)], rows) for pixels, rows in loader)
    run.learner.descriptor.train()
    run.learner.objective.train()
    pending: list[EpochRow] = []
    with _Saver(run) as saver:
        while True:
            seconds_before, images_before = progress.seconds, progress.images
            _run_epoch(run, progress, stream, saver, pending)
            means = {name: value / progress.counts[name] for name, value in progress.sums.items()}
            run.learner.schedule.after_epoch(means["loss"])
            speed = (progress.images - images_before) * fabric.world_size / max(1e-9, progress.seconds - seconds_before)
            _next_epoch(progress, means["loss"])
            row = _build_row(run, progress, means | _watch(run), speed)
            ended_by = fabric.broadcast(_end_reason(run.stage, progress, means["loss"]))
            if ended_by:
                _check_weights(run, progress)
                return [*pending, replace(row, ended_by=ended_by)]
            pending.append(row)
            if saver.due():
                saver.save(progress, pending)
                pending = []


def _watch(run: StageRun) -> dict[str, float]:
    """Return what is watched of the network; what that draws at random is not taken from the training's draws."""
    if run.watch is None:
        return {}
    device = run.learner.fabric.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        return run.watch(run.learner.objective.linear_classifier()) or {}


def _run_epoch(run: StageRun, progress: Progress, stream: LabelledBatches, saver: _Saver, pending: list[EpochRow]) -> None:
    """Train the remaining steps of an epoch; the sums of its figures are left in `progress`."""
    batches, accumulate = run.batches.per_epoch, run.settings.optimizer.accumulate
    waiting: list[tuple[int, Figures, Tensor]] = []  # step, figures and image rows of batches
    label = f"stage {progress.stage + 1}/{len(run.settings.stages)} epoch {progress.epoch + 1}"
    with tqdm(total=batches, initial=progress.batch, desc=label, unit="batch", leave=False, mininterval=1) as bar:
        while progress.batch < batches:
            started, count = time.monotonic(), min(accumulate, batches - progress.batch)
            done = progress.epoch + progress.batch / batches
            steps = progress.epoch * -(-batches // accumulate) + progress.batch // accumulate
            run.learner.schedule.before_step(done, done / run.stage.epochs, steps)
            measure = progress.batch // accumulate % STEPS_PER_MEASUREMENT == 0
            made = run.learner.learn(islice(stream, count), count, measure)
            progress.batch, progress.step = progress.batch + count, progress.step + 1
            progress.images += sum(len(rows) for _, rows in made)
            waiting += [(progress.step, figures, rows) for figures, rows in made]
            progress.seconds += time.monotonic() - started
            bar.update(count)
            looks = progress.step % STEPS_PER_CHECK == 0
            if looks or progress.batch == batches:
                _add_figures(run, progress, waiting)
                waiting.clear()
                bar.set_postfix(loss=f"{progress.sums['loss'] / progress.counts['loss']:.2f}", refresh=False)
            if looks and progress.batch < batches and saver.due():
                saver.save(progress, pending)
                pending.clear()


def _add_figures(run: StageRun, progress: Progress, waiting: list[tuple[int, Figures, Tensor]]) -> None:
    """Read the figures that steps left on the device, check their losses, and add them to the epoch's sums."""
    read = read_figures([figures for _, figures, _ in waiting])
    for (step, _, rows), figures in zip(waiting, read, strict=True):
        loss = figures["loss"]
        if not math.isfinite(loss):
            named = ", ".join(run.edited.images.ids[row] for row in rows[:5].tolist())
            raise UserError(f"the loss is {loss} at step {step} (stage {progress.stage + 1}, images {named}, …). {REMEDY}")
        for name, value in figures.items():
            progress.sums[name] = progress.sums.get(name, 0.0) + value
            progress.counts[name] = progress.counts.get(name, 0) + 1


def _check_weights(run: StageRun, progress: Progress) -> None:
    """Check that all weights are finite before anything is written: the last step may have broken them after its loss."""
    values = [*run.learner.descriptor.state_dict().values(), *run.learner.objective.state_dict().values()]
    broken = torch.zeros((), device=run.learner.fabric.device)
    for value in values:
        broken += ~value.isfinite().all()
    if sum_over_processes(broken) > 0:
        raise UserError(f"weights are NaN or infinite after step {progress.step} (stage {progress.stage + 1}). {REMEDY}")


def _next_epoch(progress: Progress, loss: float) -> None:
    falls = loss < progress.lowest_loss * (1 - MIN_RELATIVE_FALL)
    progress.epochs_since_lowest = 0 if falls else progress.epochs_since_lowest + 1
    progress.lowest_loss = loss if falls else progress.lowest_loss
    progress.epoch, progress.batch, progress.sums, progress.counts = progress.epoch + 1, 0, {}, {}


def _end_reason(stage: StageSettings, progress: Progress, loss: float) -> str:
    if stage.stop_loss is not None and loss < stage.stop_loss:
        return "loss"
    if stage.plateau_epochs is not None and progress.epochs_since_lowest >= stage.plateau_epochs:
        return "plateau"
    return "epochs" if progress.epoch >= stage.epochs else ""


def _build_row(run: StageRun, progress: Progress, means: dict[str, float], images_per_second: float) -> EpochRow:
    return EpochRow(
        stage=progress.stage + 1,
        epoch=progress.epoch,
        step=progress.step,
        classes=run.classes,
        intensity=run.stage.intensity,
        image_size=run.stage.image_size,
        loss=means["loss"],
        learning_rate=run.learner.optimizers[0].param_groups[0]["lr"],
        images_per_second=images_per_second,
        seconds=progress.seconds,
        logs={name: value for name, value in means.items() if name != "loss"},
    )
