"""Parts of benchmarks/gpu.py: training steps, also as users write them without this project, and trainings that must agree."""

import gc
import hashlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import timm
import torch
from gpu_sizes import Sizes, StepSize
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.objectives.arcface import ArcFace
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training import state, trainer
from image_copies.models.training.capture import WARM_UP
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import Progress, save_state
from image_copies.models.training.trainer import Figures, Trainer, read_figures

GIB = 2**30
WAYS = ("plain", "eager", "graph")
USUAL_BATCH = 64  # of isc2021.yaml; larger ones round the class rows, as isc2021-batch-512.yaml does


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    what: str
    figure: str  # with its unit
    bar: str = ""  # the goal
    passed: bool | None = None  # whether it was reached; None where there is none
    of_bits: bool = False  # whether the goal concerns results instead of speed, and so holds at any size


def read_clock(device: torch.device) -> float:
    """Wait until the device has finished its work; return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure_busy_seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Return the seconds a call in which the GPU computes, as torch's profiler sees it; 0 on a CPU."""
    with torch.profiler.profile() as profiler:
        for _ in range(repeats):
            work()
        read_clock(device)
    return sum(float(event.self_device_time_total) for event in profiler.key_averages()) / 1e6 / repeats


def measure_way(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time a model's step, made in one way, by batch size, and the share of it in which the device computes."""
    name, way = item.split()
    for batch in sizes.batches:
        yield _time_step(device, sizes, f"{name}, {way}, batch {batch}", replace(sizes.models[name], batch=batch), way)


def measure_steps(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time the step of one of the seven models as a graph."""
    yield _time_step(device, sizes, f"{item}, graph", sizes.models[item], "graph")


def measure_losses(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the losses of a model's steps as a graph with those that are made kernel by kernel."""
    found = []
    for way in ("eager", "graph"):
        _, learn = build_own_step(sizes.models[item], sizes, way)
        made = [learn() for _ in range(sizes.losses)]
        found.append(torch.tensor([figures["loss"] for figures in read_figures([each for ((each, _),) in made])]))
        _release(device)
    apart = float(((found[1] - found[0]) / found[0]).abs().max())
    yield Row(f"{item}, {sizes.losses} losses of graph and eager", f"apart by {apart:.1e}", "at most 1e-3", apart <= 1e-3, True)


def measure_saving(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time the saving of a state, for which training waits, the first time and the second."""
    trainer, learn = build_own_step(sizes.models[item], sizes, "eager")
    learn()
    with tempfile.TemporaryDirectory() as folder:
        for which in ("first", "second"):
            started = read_clock(device)
            save_state(Path(folder), {}, Progress(batch=1), trainer.state(), trainer.fabric)
            took = read_clock(device) - started
            yield Row(f"{item}, the {which} state", f"saved in {took:.1f} s", "at most 12 s", took <= 12)


def measure_host(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare what a step costs the host with a plain one: of two small images it is most of a step."""
    size = replace(sizes.models[item], batch=2, image_size=32, classes=1000)
    trainer, own = build_own_step(size, sizes, "eager")
    for group in trainer.optimizers[0].param_groups:
        group |= {"fused": True, "foreach": False}  # as on a GPU
    plain, spent = build_plain_step(device, size), list[list[float]]()
    for _ in range(WARM_UP + 2 * sizes.repeats):
        began = time.process_time()
        own()
        between = time.process_time()
        plain()
        spent.append([between - began, time.process_time() - between])
    for name, step, seconds in zip(("own", "plain"), (own, plain), zip(*spent[WARM_UP:], strict=True), strict=True):
        with Operations() as operations:  # type: ignore[no-untyped-call]  # torch gives its constructor no types
            step()
        figure = f"{1e3 * statistics.median(seconds):.1f} ms of a processor, {operations.count:,} operations"
        yield Row(f"{item}, {name}", figure)


class Operations(TorchDispatchMode):
    """Counts the operations that torch is asked for."""

    count = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return operation(*args, **(kwargs or {}))


def _time_step(device: torch.device, sizes: Sizes, what: str, size: StepSize, way: str) -> Row:
    """Return the row of a step; of one that does not fit into memory, that it does not."""
    _release(device)
    try:
        started = read_clock(device)
        trainer, step = (None, build_plain_step(device, size)) if way == "plain" else build_own_step(size, sizes, way)
        for _ in range(WARM_UP + 1):
            step()
        begun = read_clock(device) - started
        for _ in range(sizes.repeats):
            step()
        seconds = (read_clock(device) - started - begun) / sizes.repeats
        busy = measure_busy_seconds(device, step, min(3, sizes.repeats)) / seconds
    except torch.OutOfMemoryError as error:
        return Row(what, f"does not fit: {str(error).splitlines()[0]}")
    memory = torch.cuda.max_memory_allocated() / GIB if device.type == "cuda" else 0.0
    captured = "captured" if trainer and trainer.static and trainer.static.graph else "no graph"
    speed = f"{1e3 * seconds:.1f} ms, {size.batch / seconds:.0f} images/s; the device computes {busy:.0%} of it"
    return Row(what, f"{speed}; {memory:.1f} GiB; {captured}; begun in {begun:.0f} s")


def build_own_step(size: StepSize, sizes: Sizes, way: str) -> tuple[Trainer, Callable[[], list[tuple[Figures, torch.Tensor]]]]:
    """Return a trainer and its step on a prepared batch, "eager" or as a "graph"; a step returns its figures and image rows."""
    torch.manual_seed(0)
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": size.backbone, "dimensions": size.dimensions},
            "precision": sizes.precision,
            "graph": "auto" if way == "graph" else "never",
            "stages": [{"classes": size.classes, "image_size": size.image_size, "batch_size": size.batch}],
        }
    )
    trainer = Trainer(settings, ImageSet([], []), ImageSet([], []), Path(), Path(), seed=0)
    trainer.fabric = launch_fabric(settings.precision)
    trainer.build_network({})
    device = trainer.fabric.device
    trainer.prepare(draw_head(size, device))
    pixels = torch.randint(0, 256, (size.batch, size.image_size, size.image_size, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    labels = torch.randint(size.classes, (size.batch,), device=device)
    batch = (pixels.pin_memory() if device.type == "cuda" else pixels, labels, torch.arange(size.batch))
    return trainer, lambda: trainer.step([batch], 1, measure=False)


def draw_head(size: StepSize, device: torch.device) -> ArcFace:
    """Build an ArcFace of so many classes on the device, where its matrix is drawn in no time."""
    settings = ArcFaceSettings(chunk=size.chunk, rounded_rows=size.batch > USUAL_BATCH)
    head = settings.build(size.dimensions, 2, 0)
    head.classes, head.rows = size.classes, range(size.classes)
    drawn = torch.randn(size.classes, size.dimensions, device=device)
    head.matrix = nn.Parameter(drawn.div_(drawn.norm(dim=1, keepdim=True)))
    return head


def _release(device: torch.device) -> None:
    """Give the memory of what was measured back."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


MARGIN, SCALE, EPSILON = 0.4, 40.0, 1e-6  # of ArcFace; the last of GeM and of cosines, too


class PlainNetwork(nn.Module):
    """Images [n, 3, h, w] → GeM → cosines [n, C] to all classes."""

    def __init__(self, size: StepSize, device: torch.device) -> None:
        super().__init__()
        self.backbone = timm.create_model(size.backbone, num_classes=0, global_pool="")
        self.exponent = nn.Parameter(torch.tensor(3.0))
        self.projection = nn.Linear(self.backbone.num_features, size.dimensions, bias=False)  # type: ignore[arg-type]  # an int
        self.classes = nn.Parameter(torch.randn(size.classes, size.dimensions, device=device))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.backbone(images).float().clamp(min=EPSILON)
        pooled = features.pow(self.exponent).mean((2, 3)).pow(1 / self.exponent)
        embeddings = functional.normalize(self.projection(pooled).float())
        return functional.linear(embeddings, functional.normalize(self.classes)).float()


def build_plain_step(device: torch.device, size: StepSize) -> Callable[[], object]:
    """Return a step in bf16, channels_last, with fused Adam and clipped gradients, on a batch that stays on the device."""
    network = PlainNetwork(size, device).to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(network.parameters(), 1e-3, fused=True)
    shape = (size.batch, 3, size.image_size, size.image_size)
    images = torch.randn(shape, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(size.classes, (size.batch, 1), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            cosines = network(images)
            angles = cosines.gather(1, labels).clamp(-1 + EPSILON, 1 - EPSILON).acos()
            logits = SCALE * cosines.scatter(1, labels, (angles + MARGIN).clamp(max=math.pi).cos())
            loss = functional.cross_entropy(logits, labels[:, 0])
        loss.backward()
        clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    return step


def measure_determinism(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the checkpoints of two trainings, and of one that was stopped within an epoch and continued."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        list(write_pictures(folder / "pictures", "T", sizes.pictures, 0))
        images = find_images(folder / "pictures")
        first = _train_and_digest(folder / "first", images, sizes, None)
        for what, other in (
            ("two trainings", _train_and_digest(folder / "second", images, sizes, None)),
            ("one stopped and resumed", _train_and_digest(folder / "third", images, sizes, stop=max(2, sizes.epochs * 4 // 3))),
        ):
            yield Row(f"{what}, digests", f"{first[:12]} {other[:12]}", "equal", first == other, True)


def _train_and_digest(folder: Path, images: ImageSet, sizes: Sizes, stop: int | None) -> str:
    """Train; return the digest of the weights. A first attempt is interrupted before the step `stop`."""
    settings = ModelSettings.model_validate(
        {
            "descriptor": sizes.trained,
            "precision": sizes.precision,
            "deterministic": True,
            "stages": [{"image_size": 64, "batch_size": min(64, len(images) // 2), "epochs": sizes.epochs}],
        }
    )

    def train() -> Path:
        return Trainer(settings, images, images, folder, folder.parent / "cache", seed=0).train()

    if stop is not None:
        with _stopping_at(stop), suppress(KeyboardInterrupt):
            train()
    return hashlib.sha256(train().read_bytes()).hexdigest()


@contextmanager
def _stopping_at(step: int) -> Iterator[None]:
    """Within the block, training saves its state after every step, and is interrupted at `step`."""
    learn, calls = Trainer.step, list[int]()

    def stopping(self: Trainer, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    saving = patch.multiple(state, SAVE_INTERVAL_SECONDS=0.0, SAVING_PAUSE=0.0)
    with saving, patch.object(trainer, "STEPS_PER_CHECK", 1), patch.object(Trainer, "step", stopping):
        yield
