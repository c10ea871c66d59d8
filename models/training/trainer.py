"""Drip training of one model: visible, resumable, the same whatever the number of workers or processes."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from timm.layers.norm_act import convert_sync_batchnorm
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.augmentations import dataset
from image_copies.augmentations.composition import check_probabilities
from image_copies.augmentations.randomness import derived_seed
from image_copies.augmentations.sampling import Batches
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.arrays import Int64s
from image_copies.data.cache import CachedImages, cache_images
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.kinds import PARTS, load_kind
from image_copies.data.process import choose_workers, usable_cores

from ..device import choose_algorithms, describe_device, keep_depthwise_exact, report_lack_of_memory
from ..distributed import (
    gather_rows,
    gather_together,
    report_lost_process,
    share_buffers,
    sum_over_processes,
)
from ..inference.settings import EmbeddingSettings
from ..network.checkpoint import load_descriptor, save_descriptor
from ..network.descriptor import Descriptor, check_image_sizes
from ..objectives.base import Objective, ObjectiveOutput
from .batches import build_batches, check_class_counts, choose_rows
from .capture import StaticStep, suits_graph
from .centroids import FIRST_CENTROID_EPOCH, compute_centroids
from .classifier import save_classifier
from .collapse import describe_spread, embed_classes, find_disagreement, measure_collapse
from .curve import (
    EpochRow,
    append_rows,
    read_rows,
    record_validation,
    remove_curve,
    stage_checkpoint,
)
from .launch import launch_fabric
from .model_settings import ModelSettings
from .schedule import EpochSchedule, build_optimizers, clip_gradients
from .settings import StageSettings
from .stage_end import (
    Scores,
    describe_end,
    find_troubles,
    keep_best,
    restore_checkpoint,
    start_row,
    write_checkpoint,
)
from .state import Progress, StateSaver, identify_training, load_state, save_state

WORKING_SCALE = 1.5  # images are edited larger than they are learnt from, so that crops keep detail
STEPS_PER_CHECK = 8  # between checks of the clock and reads of figures from the device
STEPS_PER_MEASUREMENT = 8  # between figures that make the device synchronise
REMEDY = "The last good state is kept: lower optimizer.learning_rate or clip_norm in the recipe, or use precision 32."
MEMORY_REMEDY = (
    "Lower batch_size (with optimizer.accumulate the step stays as large) or image_size of the stage, use precision bf16, "
    "class_kind adafactor or more processes. A changed recipe trains from the start; the same one "
    "goes on from the last saved state where more memory is free."
)
Validate = Callable[[Descriptor, int], Scores]
Batch = tuple[Tensor, Tensor, Tensor]  # pixels uint8 [n, 3, s, s], classes and image rows int64 [n]
Figures = dict[str, Tensor | float]  # figures of one batch, by name


@dataclass(eq=False)
class Trainer:
    """Trains a model from the last saved step in `folder` to the end; of a finished training only a whitening is fitted again.

    Writes `stage-<n>.safetensors`, the training state, `curve.csv` and TensorBoard files. Under torchrun all processes do this
    together: each takes its part of every batch and of the class matrix.
    """

    settings: ModelSettings
    classes: ImageSet  # the images to learn from
    overlays: ImageSet  # images that edits paste into others
    folder: Path  # where the training keeps its files
    cache: Path  # folder of resized images, which trainings share
    seed: int  # of everything that is drawn
    validate: Validate | None = None  # scores the descriptor at an image size, at each stage's end
    # [len(classes)], the class of each image, 0 … C − 1; None: each is its own class
    labels: Int64s | None = None
    # models of other names, and the stages of one, begin with other weights and see other edits of an image
    name: str = ""
    # of the trained model, whose whitening is learnt so; None: the settings' own
    embedding: EmbeddingSettings | None = None
    progress: Progress = field(default_factory=Progress)
    fabric: Fabric = field(init=False)  # the processes that train together, their device and precision
    descriptor: Descriptor = field(init=False)
    # the descriptor as Fabric wraps it: on its device, in its precision, data-parallel
    network: Any = field(init=False)
    objective: Objective = field(init=False)  # of the stage, as all below
    optimizers: list[Any] = field(init=False)
    schedule: EpochSchedule = field(init=False)
    clip: Callable[[], None] | None = field(init=False)  # clips the gradients, in place
    static: StaticStep | None = field(init=False)

    def train(self) -> Path:
        """Train to the end; return the path of the last stage's checkpoint.

        Raises:
            UserError: Too few images, a state that cannot be read, a loss that is not finite, a lost process, or a full disk.
        """
        saved = self.begin()
        with report_lost_process("training"), choose_algorithms(self.settings.deterministic):
            if self.progress.stage == len(self.settings.stages):
                self._end_again()
            elif not saved and self.settings.descriptor.weights != "none":
                self._validate_start()
            while self.progress.stage < len(self.settings.stages):
                self.train_stage(saved)
                saved = {}
            if not self.settings.descriptor.whiten:  # which is fitted to the last weights
                keep_best(self.folder, self.name, len(self.settings.stages), self.fabric)
        return stage_checkpoint(self.folder, len(self.settings.stages))

    def begin(self) -> dict[str, Any]:
        """Find out where the training stands, and build the network; return its saved state, {} of a new training.

        Raises:
            UserError: Too few classes, an image size that the backbone cannot take, or a state that cannot be read.
        """
        settings = self.settings
        self.fabric = launch_fabric(settings.precision)
        self.class_of = (
            list(range(len(self.classes))) if self.labels is None else [int(label) for label in self.labels]
        )
        check_class_counts(settings.stages, len(set(self.class_of)), self.fabric.print)
        for stage in settings.stages:
            check_probabilities(settings.edits_of(stage))
        labels = None if self.labels is None else self.class_of
        self.identity = identify_training(
            settings, self.classes, self.overlays, labels, self.seed, self.name
        )
        self.progress, saved = load_state(self.folder, self.identity, self.fabric) or (Progress(), {})
        torch.manual_seed(derived_seed(self.seed, self.name))
        self.build_network(saved)
        if not saved and self.fabric.global_rank == 0:
            remove_curve(self.folder)
        self.whitening = self._prepare_whitening()
        if self.progress.stage < len(settings.stages):
            self._report_begin()
        return saved

    def build_network(self, saved: dict[str, Any]) -> None:
        """Build the descriptor, with its saved weights or those that it starts from, and wrap it for its device and processes."""
        settings, fabric = self.settings, self.fabric
        # whose file may have gone since
        self.descriptor = Descriptor(settings.descriptor, load_weights=not saved)
        if saved:
            self.descriptor.load_state_dict(saved["descriptor"])
        keep_depthwise_exact(self.descriptor)
        check_image_sizes(self.descriptor, (stage.image_size for stage in settings.stages))
        if fabric.world_size > 1 and fabric.device.type == "cuda":
            self.descriptor.backbone = convert_sync_batchnorm(self.descriptor.backbone)
        fabric.to_device(self.descriptor)
        self.descriptor.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
        compiled: Any = (
            torch.compile(self.descriptor, dynamic=False) if settings.compile else self.descriptor
        )
        self.network = fabric.setup_module(compiled)

    def train_stage(self, saved: dict[str, Any]) -> None:
        """Learn the stage at which the training stands, from its beginning or its saved state, and leave a checkpoint of it.

        The classes grow, all their rows begin as centroids of the network's own, and are learnt until the loss says so.
        """
        settings = self.settings
        stage = self.stage
        number = self.progress.stage
        taken_up = bool(self.progress.epoch or self.progress.batch)
        squares, overlays = self._cache_images()
        rows = choose_rows(stage.classes, squares, self.class_of)
        seed = derived_seed(self.seed, self.name, number)  # of the order and the edits
        material = dataset.overlay_material(
            squares, overlays, rows[-1] + 1 if self.labels is None else len(squares)
        )
        edited = dataset.EditedImages(squares, settings.edits_of(stage), stage.image_size, seed, material)
        sizes = f"batch_size {stage.batch_size}, image_size {stage.image_size}, {len(rows):,} images"
        with report_lack_of_memory(f"while stage {number + 1} trained ({sizes})", MEMORY_REMEDY):
            torch.manual_seed(seed)  # the objective begins the same on all processes
            classes = 1 + max(self.class_of[row] for row in rows)
            self.prepare(settings.build_objective(self.descriptor.dimensions, classes, self.seed))
            torch.manual_seed(seed + number * (self.fabric.world_size - 1) + self.fabric.global_rank)
            if taken_up:
                self.restore(saved)
            # an untrained backbone has no centroids
            elif number > 0 or settings.descriptor.weights != "none":
                self._check_modes(squares, rows)
                self.rebuild_class_rows(squares, edited, rows)
            batches = build_batches(settings, stage, rows, self.class_of, self.progress, seed, self.fabric)
            ended = self.learn(edited, batches, len({self.class_of[row] for row in rows}))
            if self.fabric.global_rank == 0:
                batch = max(1, stage.batch_size // self.fabric.world_size)
                vectors = embed_classes(
                    self.descriptor, squares, rows, self.class_of, stage.image_size, batch
                )
                ended[-1].logs.update(measure_collapse(vectors))
        self.end_stage(ended)

    def prepare(self, objective: Objective) -> None:
        """Take the objective of the stage, on the device, and build optimisers and schedule with the stage's learning rates."""
        settings = self.settings
        stage = self.stage
        fabric = self.fabric
        if settings.compile:
            # what was compiled for another image size counts towards a bound on compiling
            torch.compiler.reset()
        fabric.to_device(objective)  # in place
        self.objective = objective
        fused = fabric.device.type == "cuda" and settings.precision != "16"
        optimizers = build_optimizers(
            self.descriptor, objective, settings.optimizer, stage.learning_rate_factor, fused
        )
        self.optimizers = [fabric.setup_optimizers(optimizer) for optimizer in optimizers]
        last = stage.last_learning_rate_factor
        self.schedule = EpochSchedule(
            optimizers, settings.scheduler, last and last / stage.learning_rate_factor
        )
        matrix = objective.class_matrix()
        limit = settings.optimizer.clip_norm
        # once: to find them takes milliseconds of each step
        parameters = [*self.descriptor.parameters(), *objective.parameters()]
        clip = partial(
            clip_gradients, parameters, limit or 0.0, None if matrix is None else matrix.parameter
        )
        self.clip = None if limit is None else clip
        self.static = StaticStep(fabric, optimizers) if suits_graph(settings, fabric.device) else None

    def rebuild_class_rows(
        self, squares: CachedImages, edited: dataset.EditedImages, rows: list[int]
    ) -> None:
        """Rebuild the rows that this process holds from the network's own centroids (ISC2021 paper, section 2.5.1).

        `edited` are the images of `squares` as the stage edits them, `rows` those that it learns from. An objective without a
        class matrix is left alone.
        """
        matrix = self.objective.class_matrix()
        if matrix is None:
            return
        started = time.monotonic()
        # on CPUs each process gathers its own statistics: rows must come from one network
        share_buffers(self.descriptor)
        own = [row for row in rows if self.class_of[row] in matrix.classes]
        clean = dataset.EditedImages(
            squares, AugmentationSettings(family="none"), self.stage.image_size, edited.seed
        )
        passes = [(clean, FIRST_CENTROID_EPOCH)]
        passes += [(edited, FIRST_CENTROID_EPOCH - number) for number in range(self.stage.centroid_edits)]
        found, centroids = compute_centroids(
            self.descriptor,
            passes,
            own,
            [self.class_of[row] for row in own],
            batch_size=128,
            workers=choose_workers(self.settings.workers),
            precision=self.settings.precision,
        )
        matrix.set_prototypes(found, centroids)
        self.progress.seconds = time.monotonic() - started

    def learn(self, edited: dataset.EditedImages, batches: Batches, classes: int) -> list[EpochRow]:
        """Learn the stage's classes, so many, until its loss, a plateau or the budget ends it; return the curve's unwritten rows.

        Raises:
            UserError: The loss or a weight becomes NaN or infinite, a process is lost, or the state cannot be written.
        """
        stage = self.stage
        progress = self.progress
        fabric = self.fabric
        stream = self._load(edited, batches)
        self.descriptor.train()
        self.objective.train()
        self.pending: list[EpochRow] = []
        self.saver = StateSaver(self.folder, self.identity, fabric)
        while True:
            seconds_before = progress.seconds
            images_before = progress.images
            self._learn_epoch(stream, batches.per_epoch)
            means = {name: value / progress.counts[name] for name, value in progress.sums.items()}
            self.schedule.after_epoch(means["loss"])
            learnt = (progress.images - images_before) * fabric.world_size
            progress.end_epoch(means["loss"])
            row = EpochRow(
                stage=progress.stage + 1,
                epoch=progress.epoch,
                step=progress.step,
                classes=classes,
                intensity=stage.intensity,
                image_size=stage.image_size,
                loss=means.pop("loss"),
                learning_rate=self.optimizers[0].param_groups[0]["lr"],
                images_per_second=learnt / max(1e-9, progress.seconds - seconds_before),
                seconds=progress.seconds,
                logs=means,
            )
            ended_by = fabric.broadcast(progress.end_reason(stage, row.loss))
            if ended_by:
                self.check_weights()
                return [*self.pending, replace(row, ended_by=ended_by)]
            self.pending.append(row)
            if self.saver.due():
                self._save()

    def _learn_epoch(self, stream: Iterator[Batch], batches: int) -> None:
        """Make the remaining steps of an epoch of so many batches; the sums of its figures are left in `progress`."""
        progress = self.progress
        accumulate = self.settings.optimizer.accumulate
        waiting: list[tuple[int, Figures, Tensor]] = []  # step, figures and image rows of batches
        label = (
            f"{self.name} stage {progress.stage + 1}/{len(self.settings.stages)} epoch {progress.epoch + 1}"
        )
        with tqdm(
            total=batches, initial=progress.batch, desc=label, unit="batch", leave=False, mininterval=1
        ) as bar:
            while progress.batch < batches:
                started = time.monotonic()
                count = min(accumulate, batches - progress.batch)
                done = progress.epoch + progress.batch / batches
                steps = progress.epoch * -(-batches // accumulate) + progress.batch // accumulate
                self.schedule.before_step(done, done / self.stage.epochs, steps)
                measure = progress.batch // accumulate % STEPS_PER_MEASUREMENT == 0
                made = self.step(islice(stream, count), count, measure)
                progress.batch, progress.step = progress.batch + count, progress.step + 1
                progress.images += sum(len(rows) for _, rows in made)
                waiting += [(progress.step, figures, rows) for figures, rows in made]
                progress.seconds += time.monotonic() - started
                bar.update(count)
                looks = progress.step % STEPS_PER_CHECK == 0
                if looks or progress.batch == batches:
                    self._add_figures(waiting)
                    waiting.clear()
                    bar.set_postfix(
                        loss=f"{progress.sums['loss'] / progress.counts['loss']:.2f}", refresh=False
                    )
                if looks and progress.batch < batches and self.saver.due():
                    self._save()

    def step(
        self, batches: Iterable[Batch], count: int, measure: bool = True
    ) -> list[tuple[Figures, Tensor]]:
        """Make one optimiser step from the accumulated gradients of `count` batches.

        Return the figures of each batch, left on the device, and its image rows. Nothing here waits for the device, unless
        figures that need it are to be measured, too.
        """
        made: list[tuple[Figures, Tensor]] = []
        self.objective.measures = measure
        for number, batch in enumerate(batches):
            step = partial(self._make_step, count=count, last=number == count - 1)
            try:
                output = step(*batch) if self.static is None else self.static(step, *batch)
                figures: Figures = {"loss": output.loss, **output.logs}
                if measure and output.rows is not None:
                    figures |= describe_spread(
                        gather_rows(output.rows) if self.objective.takes_local_batch else output.rows
                    )
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # singular values of NaN
                figures = {"loss": math.nan}
            made.append((figures, batch[2]))
        return made

    def _make_step(
        self,
        pixels: Tensor,
        labels: Tensor,
        instances: Tensor,
        count: int,
        last: bool,
    ) -> ObjectiveOutput:
        """Add the gradients of one of `count` batches, make the optimisers' step after the last, and return the detached loss."""
        with self.fabric.no_backward_sync(self.network, enabled=not last):
            output = self.compute_batch_loss(pixels, labels, instances)
            self.fabric.backward(output.loss / count)
        if last:
            self._arrange_gradients()
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return replace(output, loss=output.loss.detach())

    def compute_batch_loss(self, pixels: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        """Compute the loss over the images of all processes; this one has pixels uint8 [n, 3, s, s], classes and rows int64 [n].

        Raises:
            UserError: The batch does not contain what the objective compares.
        """
        device = self.fabric.device
        mix: Any = self.settings.mix and load_kind(PARTS, self.settings.mix.kind)(self.settings.mix)
        images = dataset.normalize_pixels(
            pixels.to(device, non_blocking=True), self.descriptor.mean, self.descriptor.std
        )
        if self.settings.turn:
            images = load_kind(PARTS, "turn")(images)
        labels, instances = labels.to(device, non_blocking=True), instances.to(device, non_blocking=True)
        # one for the batch of all processes
        share = self.fabric.broadcast(mix.draw_share()) if mix else None
        if share is None:
            return self._compare(self.network(images, raw=True), labels, instances)
        mixed, partner = mix.mix(images, share)
        embeddings = self.network(mixed, raw=True)
        own = self._compare(embeddings, labels, instances)
        others = self._compare(embeddings, labels[partner], instances[partner])
        return replace(own, loss=share * own.loss + (1 - share) * others.loss)

    def _compare(self, embeddings: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        """The loss of all processes' embeddings; these [n, d], or with domains [4, n, d / 4], are this process's part."""
        with self.fabric.autocast():
            if not self.objective.takes_local_batch:
                rows, labels, instances = gather_together(embeddings.transpose(0, -2), labels, instances)
                embeddings = rows.transpose(0, -2)  # [n, d] or, with domains, [4, n, d / 4]
            if self.descriptor.domains:
                summed: ObjectiveOutput = self.descriptor.domains.sum_losses(
                    self.objective, embeddings, labels, instances
                )
                return summed
            return self.objective(embeddings, labels, instances)

    def _arrange_gradients(self) -> None:
        """Bring the gradients to their scale, and clip them if the settings say so."""
        for optimizer in self.optimizers:
            self.fabric.strategy.precision.unscale_gradients(getattr(optimizer, "optimizer", optimizer))
        if self.clip is not None:
            self.clip()

    def end_stage(self, ended: list[EpochRow]) -> None:
        """Write what is kept of a stage, of which these are the last rows of the curve; then score it, and report its end.

        What fails in the validation costs this figure only.
        """
        fabric = self.fabric
        size = self.stage.image_size
        last = ended[-1]
        self.progress = Progress(self.progress.stage + 1, step=self.progress.step)
        if self.settings.descriptor.whiten and self.progress.stage == len(self.settings.stages):
            self._whiten(size)
        classifier = self.objective.linear_classifier()
        if fabric.global_rank == 0:
            append_rows(self.folder, ended)
            if classifier is not None:
                save_classifier(self.folder, classifier)
            write_checkpoint(self.folder, last, self.descriptor, size)
        save_state(
            self.folder, self.identity, self.progress, {"descriptor": self.descriptor.state_dict()}, fabric
        )
        # memory for what follows
        del self.objective, self.optimizers, self.schedule, self.clip, self.static, classifier
        score, left_out = self._validate(size)
        last = replace(last, validation=score, left_out=left_out)
        troubles = find_troubles(last, read_rows(self.folder))
        if fabric.global_rank == 0 and (troubles or score is not None):
            last = replace(last, warning=" ".join(troubles))
            record_validation(self.folder, last)
            write_checkpoint(self.folder, last, self.descriptor, size)
        fabric.print(
            *(describe_end(last, self.name), *(f"warning: {trouble}" for trouble in troubles)),
            sep="\n  ",
            flush=True,
        )

    def _end_again(self) -> None:
        """Write a last checkpoint that cannot be read, and fit the whitening to how vectors are embedded now, in it."""
        restore_checkpoint(self.folder, self.descriptor, self.settings.stages, self.fabric)
        if not self.settings.descriptor.whiten:
            return
        self.fabric.print(
            "  the training is finished; its whitening is fitted again, as images are embedded now",
            flush=True,
        )
        path = stage_checkpoint(self.folder, len(self.settings.stages))
        found = load_descriptor(path)
        self._whiten(found.image_size)
        score, _ = self._validate(found.image_size)
        if self.fabric.global_rank == 0:
            notes = found.notes if score is None else found.notes | {"validation": score}
            save_descriptor(path, self.descriptor, found.image_size, notes)
        self.fabric.barrier()

    @property
    def stage(self) -> StageSettings:
        """The settings of the stage at which the training stands."""
        return self.settings.stages[self.progress.stage]

    def state(self) -> dict[str, Any]:
        """Return everything that training changes: weights, optimisers, schedule, gradient scaler and random states."""
        return {
            "descriptor": self.descriptor.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedule": self.schedule.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),
            "random": [torch.get_rng_state()]
            + ([torch.cuda.get_rng_state()] if torch.cuda.is_available() else []),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, except the descriptor's weights, which are loaded already."""
        objective = state["objective"]
        if self.settings.svmax is None:
            # states of before 28 November have every objective in a wrapper
            objective = {name.removeprefix("objective."): value for name, value in objective.items()}
        self.objective.load_state_dict(objective)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
            _arrange_like_parameters(getattr(optimizer, "optimizer", optimizer))
        self.schedule.load_state_dict(state["schedule"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        torch.set_rng_state(state["random"][0])
        if torch.cuda.is_available() and len(state["random"]) > 1:
            torch.cuda.set_rng_state(state["random"][1])

    def check_weights(self) -> None:
        """Check that all weights are finite before anything is written: the last step may have broken them after its loss.

        Raises:
            UserError: Some are NaN or infinite, on any process.
        """
        progress = self.progress
        broken = torch.zeros((), device=self.fabric.device)
        for value in (*self.descriptor.state_dict().values(), *self.objective.state_dict().values()):
            broken += ~value.isfinite().all()
        if sum_over_processes(broken) > 0:
            raise UserError(
                f"weights are NaN or infinite after step {progress.step} (stage {progress.stage + 1}). {REMEDY}"
            )

    def _prepare_whitening(self) -> Any:
        """Return what learns a whitening at the end (`FinalWhitening`); None where the descriptor does not whiten."""
        settings, classes = self.settings, self.classes
        if not settings.descriptor.whiten:
            return None
        learnt_last = settings.stages[-1].classes or len(self.class_of)
        learnt = classes.select(
            [classes.ids[row] for row, label in enumerate(self.class_of) if label < learnt_last]
        )
        final = load_kind(PARTS, "whiten")
        return final(settings, self.descriptor.dimensions, self.overlays, learnt, self.seed)

    def _whiten(self, trained_at: int) -> None:
        embedding = self.embedding or self.settings.embedding or EmbeddingSettings()
        self.whitening.learn(self.descriptor, embedding, trained_at)

    def _report_begin(self) -> None:
        fabric = self.fabric
        threads = f", {torch.get_num_threads()} threads compute" if fabric.device.type == "cpu" else ""
        workers = (
            f"{choose_workers(self.settings.workers)} workers edit images{threads}, {usable_cores()} cores"
        )
        fabric.print(f"  {self.name} trains on {describe_device(fabric.device)}; {workers}", flush=True)

    def _validate_start(self) -> None:
        """Write the start's µAP as stage 0 of the curve, if it is measured: what comes after has to be better."""
        size = self.settings.stages[0].image_size
        scores = self._validate(size)
        if scores[0] is not None and self.fabric.global_rank == 0:
            append_rows(self.folder, [start_row(scores, size)])
            self.fabric.print(
                f"  the start: µAP on synthetic queries {scores[0]:.3f} at {size} px, before anything is learnt",
                flush=True,
            )

    def _check_modes(self, squares: CachedImages, rows: list[int]) -> None:
        """Warn where the weights that training starts from embed otherwise than they learn."""
        if self.progress.stage:
            return
        clean = dataset.EditedImages(
            squares, AugmentationSettings(family="none"), self.stage.image_size, self.seed
        )
        pixels = torch.stack([clean[0, row, 0][0] for row in rows[:64]]).to(self.fabric.device)
        trouble = find_disagreement(
            self.descriptor, dataset.normalize_pixels(pixels, self.descriptor.mean, self.descriptor.std)
        )
        started = read_rows(self.folder)
        if trouble:
            self.fabric.print(f"  warning: {trouble}", flush=True)
        if trouble and started and self.fabric.global_rank == 0:
            first, left_out = float(started[0]["validation"]), started[0].get("left_out")
            scores = (first, float(left_out) if left_out else None)
            row = start_row(scores, self.stage.image_size, trouble)
            record_validation(self.folder, row)

    def _cache_images(self) -> tuple[CachedImages, CachedImages]:
        """Return the images to learn from and the overlays, larger than they are learnt; report once which cannot be read."""
        size = round(self.stage.image_size * WORKING_SCALE)
        settings = self.settings
        progress = self.progress
        with self.fabric.rank_zero_first():
            squares, overlays = (
                cache_images(images, size, self.cache, settings.cache, choose_workers(settings.workers))
                for images in (self.classes, self.overlays)
            )
        if squares.problems and (progress.stage, progress.epoch, progress.batch) == (0, 0, 0):
            first = " ".join(next(iter(squares.problems.items())))
            left_out = f"{len(squares.problems)} of {len(squares)} training images are left out"
            self.fabric.print(f"  {left_out}, the first: {first}", flush=True)
        return squares, overlays

    def _load(self, edited: dataset.EditedImages, batches: Batches) -> Iterator[Batch]:
        """Yield this process's batches, edited by workers, with the classes of their images."""
        device = self.fabric.device
        workers = choose_workers(self.settings.workers)
        loader = DataLoader(
            edited,
            batch_sampler=batches,
            num_workers=workers,
            pin_memory=device.type == "cuda",
            prefetch_factor=4 if workers else None,
            # otherwise, starting the loader would draw from the restored random state
            generator=torch.Generator(),
        )
        classes = torch.tensor(self.class_of, device=device)
        return ((pixels, classes[rows.to(device, non_blocking=True)], rows) for pixels, rows in loader)

    def _validate(self, size: int) -> Scores:
        """The first process scores while the others wait; None, with a message, where that fails: no training depends on it."""
        scores: Scores = (None, None)
        fabric = self.fabric
        if self.validate and fabric.global_rank == 0:
            try:
                scores = self.validate(self.descriptor, size)
            except Exception as error:  # whatever a search or a full card raises
                reason = (str(error).splitlines() or [""])[0]
                fabric.print(
                    f"  the validation failed, training goes on without it: {type(error).__name__}: {reason}",
                    flush=True,
                )
            if fabric.device.type == "cuda":
                torch.cuda.empty_cache()  # what was tried with other batch sizes is not needed any more
        self.descriptor.train()
        fabric.barrier()
        return scores

    def _save(self) -> None:
        """Save the state, and write the curve's rows that are pending; none is then."""
        self.check_weights()
        if self.fabric.global_rank == 0:
            append_rows(self.folder, self.pending)
        self.pending.clear()
        self.saver.save(self.progress, self.state())

    def _add_figures(self, waiting: list[tuple[int, Figures, Tensor]]) -> None:
        """Read the figures that steps left on the device, check their losses, and add them to the epoch's sums."""
        progress = self.progress
        read = read_figures([figures for _, figures, _ in waiting])
        for (step, _, rows), figures in zip(waiting, read, strict=True):
            loss = figures["loss"]
            if not math.isfinite(loss):
                named = ", ".join(self.classes.ids[row] for row in rows[:5].tolist())
                raise UserError(
                    f"the loss is {loss} at step {step} (stage {progress.stage + 1}, images {named}, …). {REMEDY}"
                )
            for name, value in figures.items():
                progress.sums[name] = progress.sums.get(name, 0.0) + value
                progress.counts[name] = progress.counts.get(name, 0) + 1


def _arrange_like_parameters(optimizer: torch.optim.Optimizer) -> None:
    """Give loaded moments the memory format of their parameters, which files do not store; mixed formats slow the step down."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if (
                isinstance(value, Tensor)
                and value.shape == parameter.shape
                and value.stride() != parameter.stride()
            ):
                state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def read_figures(batches: list[Figures]) -> list[dict[str, float]]:
    """Return the figures of several batches as numbers, with a single copy from the device."""
    tensors = [
        value.detach() for figures in batches for value in figures.values() if isinstance(value, Tensor)
    ]
    numbers = iter(torch.stack(tensors).tolist() if tensors else [])
    return [
        {
            name: next(numbers) if isinstance(value, Tensor) else float(value)
            for name, value in figures.items()
        }
        for figures in batches
    ]
