"""Estimates of what a training needs: memory for class matrix, optimisers and activations, time and disk.

Activations and time come from a short calibration on this machine: one step of a few images through the real backbone, class
matrices of two sizes (cost is assumed to be linear in the classes), a few edited images and an optimiser step.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from image_copies.augmentations.dataset import EditedImages, overlay_material
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages
from image_copies.data.process import choose_workers, usable_cores
from image_copies.data.squares import resize_square
from image_copies.models.device import autocast, best_device, report_lack_of_memory
from image_copies.models.network.descriptor import Descriptor, check_image_sizes
from image_copies.models.network.memory_format import choose_memory_format
from image_copies.models.objectives.arcface import choose_chunk, keeps_weights
from image_copies.models.objectives.base import Objective
from image_copies.models.objectives.settings import ClassRows
from image_copies.models.training.class_counts import repeats_stage_before
from image_copies.models.training.class_rows import build_head
from image_copies.models.training.clipping import clip_gradients, join_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings, SamplingSettings, StageSettings
from image_copies.models.training.trainer import MEMORY_REMEDY, WORKING_SCALE

HEAD_CLASSES = {"cpu": (5_000, 20_000), "cuda": (131_072, 524_288)}  # on a GPU, fewer would measure kernel launches
TIMED_EDITS = 12  # after one warm-up edit
CALIBRATION_PIXELS = {"cpu": 250_000, "cuda": 4_000_000}  # of a batch: enough to use the device fully, few enough to be quick
BYTES_PER_FLOAT, BYTES_PER_HALF = 4, 2
EMPTY_OBJECTIVE = Objective()  # without parameters
CACHE_SHARE = {"pixels": 1.0, "jpeg": 0.1}  # of 3 · size² bytes per image in the cache


@dataclass(frozen=True)
class StagePlan:
    """The needs of one stage: bytes in the memory of one process, seconds, and bytes of disk."""

    stage: int  # stage number, from 1
    classes: int
    image_size: int
    batch_size: int  # images per batch, over all processes
    matrix: int  # bytes of the class matrix or classifier and its gradient
    optimizer: int  # bytes of the optimisers' state and of temporaries of a step
    network: int  # bytes of the network and its gradients
    activations: int  # bytes of the activations for a process's part of a batch, and of the logits that exist at once
    edit_seconds: float  # seconds for an epoch's edits with all workers; on a GPU they overlap with the network
    epoch_seconds: float
    most_seconds: float  # maximum seconds of the whole stage
    disk: int
    state: int  # bytes of the training state while it is being replaced, and of the stage's checkpoint

    @property
    def memory(self) -> int:
        """Total bytes of memory in one process."""
        return self.matrix + self.optimizer + self.network + self.activations


@dataclass(frozen=True)
class Machine:
    """The resources available to a training."""

    device: str  # the GPU's name, or "CPU"
    memory: int  # free bytes of memory per process
    disk: int  # free bytes of disk


def describe_machine(folder: Path, processes: int = 1) -> Machine:
    """Measure the free memory of the GPU, or of the computer per process, and the free disk at `folder` or its nearest parent."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    device = best_device()
    if device.type == "cuda":
        return Machine(torch.cuda.get_device_name(), torch.cuda.mem_get_info()[0], shutil.disk_usage(existing).free)
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine("CPU", memory // processes, shutil.disk_usage(existing).free)


def plan_model(
    settings: ModelSettings, images: int, processes: int = 1, labels: NDArray[np.int64] | None = None
) -> Iterator[StagePlan]:
    """Yield the plan of each stage that is not skipped, for a number of images; labels int64 [images] are their classes.

    Each process has its own GPU; without GPUs they share the CPU. Without labels, each image is its own class.

    Raises:
        UserError: The backbone cannot be built or does not accept an input size, or memory runs out in the calibration.
    """
    device = best_device()
    processors = processes if device.type == "cuda" else 1
    descriptor = Descriptor(settings.descriptor, load_weights=False).to(device)
    check_image_sizes(descriptor, (stage.image_size for stage in settings.stages))
    first = settings.stages[0]
    descriptor.arrange(
        choose_memory_format(descriptor, device, first.image_size, first.batch_size, settings.precision, learns=True)
    )
    sizes = np.ones(images, np.int64) if labels is None else np.bincount(labels)  # of the classes
    measured: dict[tuple[int, int], _Step] = {}
    workers = choose_workers(settings.workers) * processes
    for number, stage in enumerate(settings.stages, 1):
        if repeats_stage_before(settings.stages, number - 1, len(sizes)):
            continue
        classes = min(stage.classes or len(sizes), len(sizes))
        iterations = settings.iterations_of(stage)
        one_pass = _count_images_per_pass(settings.sampling, sizes[:classes])
        batch, width = min(stage.batch_size, one_pass), descriptor.dimensions
        seen = one_pass if iterations is None else iterations * batch
        if (stage.image_size, batch) not in measured:
            measured[stage.image_size, batch] = _measure_step(settings, descriptor, stage, batch)
        step = measured[stage.image_size, batch]
        rows = settings.objective.class_rows(classes, batch, processes)
        compared = choose_chunk(rows.compared, batch, width, device) if rows.compared else 0
        halves = rows.rounded * (width + (batch if keeps_weights(batch, width) else 0))
        weights = sum(parameter.numel() for parameter in descriptor.parameters()) * BYTES_PER_FLOAT
        learnt = rows.held if processors > 1 else classes
        network = seen * step.seconds_per_image / processors
        network += seen / batch * (step.seconds_per_step + step.seconds_per_step_and_class * learnt)
        edits = seen * step.seconds_per_edit / max(1, min(workers, usable_cores()))
        epoch = max(network, edits) if device.type == "cuda" and workers else network + edits
        moments, of_step = _optimizer_bytes(settings.optimizer, rows.held, width, weights)
        kept = weights + processes * moments + classes * width * BYTES_PER_FLOAT
        yield StagePlan(
            stage=number,
            classes=classes,
            image_size=stage.image_size,
            batch_size=batch,
            matrix=width * _count_matrix_rows(settings.optimizer, rows) * BYTES_PER_FLOAT + halves * BYTES_PER_HALF,
            optimizer=of_step,
            network=2 * weights,
            activations=step.bytes_per_image * -(-batch // processes) + 3 * BYTES_PER_FLOAT * compared * batch,
            edit_seconds=edits,
            epoch_seconds=epoch,
            most_seconds=epoch * stage.epochs,
            disk=int(images * 3 * (stage.image_size * WORKING_SCALE) ** 2 * CACHE_SHARE[settings.cache]),
            state=2 * kept + weights,
        )


@dataclass(frozen=True)
class _Step:
    """The cost of a training step, measured on a few images: the network's passes and optimiser, the class head, the edits."""

    seconds_per_image: float
    seconds_per_step_and_class: float
    bytes_per_image: int
    seconds_per_step: float = 0.0
    seconds_per_edit: float = 0.0


def _count_images_per_pass(sampling: SamplingSettings, sizes: NDArray[np.int64]) -> int:
    """Count the images of a pass, with their further copies; sizes [C] are the numbers of images of the classes."""
    match sampling:
        case SamplingSettings(kind="repeated", copies=copies):
            return copies * int(sizes.sum())
        case SamplingSettings(kind="pk", per_class=per_class):
            return int((-(-sizes // per_class) * per_class).sum())
        case _:
            return int(sizes.sum())


def _measure_step(settings: ModelSettings, descriptor: Descriptor, stage: StageSettings, batch: int) -> _Step:
    device = next(descriptor.parameters()).device
    together = CALIBRATION_PIXELS[device.type] // stage.image_size**2
    count = max(2, min(stage.batch_size, together))
    images = torch.randn(count, 3, stage.image_size, stage.image_size, device=device).contiguous(
        memory_format=descriptor.memory_format
    )
    work = f"while a step of {count} images of {stage.image_size} px was measured (batch_size {stage.batch_size})"
    descriptor.train()
    held: dict[int, int] = {}
    seconds = 0.0
    for measuring in (False, True):  # the first step allocates and chooses algorithms
        with (
            report_lack_of_memory(work, MEMORY_REMEDY),
            _measure_time(device) as spent,
            _record_saved_bytes(held, descriptor),
            autocast(device, settings.precision),
        ):
            descriptor(images, raw=True).sum().backward()
        seconds = spent[0] if measuring else seconds
        if not measuring:
            descriptor.zero_grad(set_to_none=True)
    fused = device.type == "cuda" and settings.precision != "16"
    (optimizer,) = build_optimizers(descriptor, EMPTY_OBJECTIVE, settings.optimizer, fused=fused)
    stepping = _time_steps(optimizer, device)
    descriptor.zero_grad(set_to_none=True)
    fixed, per_class = _time_classes(settings, descriptor.dimensions, batch, device)
    edit = _time_edits(settings.edits_of(stage), stage.image_size)
    return _Step(seconds / count, per_class, sum(held.values()) // count, stepping + fixed, edit)


def _time_steps(optimizer: torch.optim.Optimizer, device: torch.device) -> float:
    """Seconds of a step of the optimiser, whose parameters have gradients; the gradients are clipped as in training."""
    seconds = 0.0
    for _ in range(2):  # the first makes the state
        with _measure_time(device) as spent:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            for parameter in parameters:
                join_rows(parameter, batches=1)
            clip_gradients(parameters, 1.0)
            optimizer.step()
        seconds = spent[0]
    return seconds


def _time_classes(settings: ModelSettings, dimensions: int, batch: int, device: torch.device) -> tuple[float, float]:
    """Return seconds per step of the objective and its optimiser, and further ones per class; 0 without a class matrix."""
    (few, many), seconds = HEAD_CLASSES[device.type], list[float]()
    for classes in (few, many):
        spent = _time_head(settings, dimensions, batch, classes, device)
        if spent is None:
            return 0.0, 0.0
        seconds.append(spent)
    slope = max(0.0, seconds[1] - seconds[0]) / (many - few)
    return max(0.0, seconds[1] - slope * many), slope


def _time_head(settings: ModelSettings, dimensions: int, batch: int, classes: int, device: torch.device) -> float | None:
    """Seconds of a step of the objective alone, with its optimiser; None where there is no class matrix."""
    objective = build_head(settings, dimensions, classes, 0).to(device)
    if objective.class_matrix() is None:
        return None
    fused = device.type == "cuda" and settings.precision != "16"
    optimizer = build_optimizers(nn.Linear(1, 1, device=device), objective, settings.optimizer, fused=fused)[-1]
    embeddings = torch.randn(batch, dimensions, device=device, requires_grad=True)
    seconds = 0.0
    for _ in range(2):  # the first is slower
        with _measure_time(device) as spent, autocast(device, settings.precision):
            objective(embeddings, torch.arange(batch, device=device) % classes).loss.backward()
        seconds = spent[0]
    return seconds + _time_steps(optimizer, device)


def _time_edits(edits: AugmentationSettings, image_size: int) -> float:
    """Seconds of one process for an edited image, of soft noise as large as the stage's."""
    side, rng = round(image_size * WORKING_SCALE), np.random.default_rng(0)
    small = rng.integers(0, 256, (TIMED_EDITS + 1, 24, 24, 3), dtype=np.uint8)
    squares = CachedImages(
        [f"P{row}" for row in range(len(small))], np.stack([resize_square(pixels, side) for pixels in small]), {}
    )
    edited = EditedImages(squares, edits, image_size, 0, overlay_material(squares, squares, len(squares)))
    edited[0, 0, 0]
    started = time.perf_counter()
    for row in range(1, len(squares)):
        edited[0, row, 0]
    return (time.perf_counter() - started) / TIMED_EDITS


@contextmanager
def _measure_time(device: torch.device) -> Iterator[list[float]]:
    spent = [0.0]
    started = time.perf_counter()
    yield spent
    if device.type == "cuda":
        torch.cuda.synchronize()
    spent[0] = time.perf_counter() - started


@contextmanager
def _record_saved_bytes(held: dict[int, int], module: nn.Module) -> Iterator[None]:
    """Collect the bytes of what the forward pass keeps for backward, each storage once, without the weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    held.clear()
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        yield


def _count_matrix_rows(optimizer: OptimizerSettings, rows: ClassRows) -> int:
    """Count the rows of the class matrix, of what a step copies of it, and of their gradients."""
    if optimizer.class_kind == "sparse_adam":
        return rows.held + 2 * rows.copied
    return 2 * (rows.held + rows.copied)


def _optimizer_bytes(optimizer: OptimizerSettings, rows: int, width: int, weights: int) -> tuple[int, int]:
    """Return the bytes that the optimiser keeps between steps, which the training state holds, and with those of a step."""
    matrix = rows * width
    kept, most = {"adam": (2, 4), "muon": (1, 2), "sgd": (1, 2) if optimizer.momentum else (0, 0)}[optimizer.kind]
    kept_of_matrix, most_of_matrix = {
        "same": (kept * matrix, most * matrix),
        "adam": (2 * matrix, 4 * matrix),
        "adafactor": (rows + width, matrix + rows + width),
        "plain_sgd": (0, 0),
        "sparse_adam": (2 * matrix, 2 * matrix),
    }[optimizer.class_kind]
    return kept * weights + kept_of_matrix * BYTES_PER_FLOAT, most * weights + most_of_matrix * BYTES_PER_FLOAT
