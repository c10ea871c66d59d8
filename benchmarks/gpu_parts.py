"""The parts of benchmarks/gpu.py; each yields rows of the table."""

import gc
import hashlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from class_head_step import SAMPLED, StepSize, TrainingStep, read_clock
from full_size import simulate
from gpu_decoding import PHOTO, compare_decoders, write_photos
from gpu_sizes import Sizes
from torch import distributed
from torch.multiprocessing.spawn import spawn

from augmentations.dataset import EditedImages, UnfinishedImages, load_edited, overlay_material
from augmentations.deferral import join_unfinished
from augmentations.device_edits import finish_edits
from augmentations.settings import AugmentationSettings
from data.cache import CachedImages
from data.images import ImageSet, find_images
from data.procedural.sample import write_pictures
from models.device import choose_algorithms
from models.inference.embed import embed_batch, embed_images, measure_memory_format
from models.network.checkpoint import Checkpoint
from models.network.descriptor import Descriptor
from models.network.memory_format import MIN_GAIN, choose_memory_format
from models.network.settings import DescriptorSettings
from models.objectives.arcface import ArcFace
from models.objectives.svmax import Svmax
from models.settings import EmbeddingSettings, ModelSettings
from models.training.launch import launch_fabric
from models.training.learner import Learner, build_learner, set_up_network
from models.training.state import Progress, load_state, save_state
from models.training.trainer import train_model
from pipeline.steps.gpu_search import TorchSearch
from submissions.search.backend import find_nearest, use_backend
from submissions.search.exact import search_pairs

GIB = 2**30
NEIGHBOURS = 10  # per query
MAX_SECONDS = 400  # after which a part begins nothing more
WANTED_SIZE, WANTED_SPEED = 160, 5700  # pixels; images/s that tf_efficientnetv2_s takes there in large batches


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        what: What was measured.
        figure: The figure, with its unit.
        bar: The goal; empty where there is none.
        passed: Whether the goal was reached; None where there is none.
        of_bits: Whether the goal concerns results instead of speed, and so holds at any size.
    """

    what: str
    figure: str
    bar: str = ""
    passed: bool | None = None
    of_bits: bool = False


def measure_median(device: torch.device, work: Callable[[], object], repeats: int, warm_up: int = 3) -> float:
    """Return the median seconds of `repeats` calls, each until the device has finished."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        started = read_clock(device)
        work()
        seconds.append(read_clock(device) - started)
    return float(np.median(seconds))


def measure_nccl(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Compare loss and gradients of a class matrix that is distributed over processes with those of one process."""
    processes = torch.cuda.device_count() if device.type == "cuda" else 2
    with tempfile.TemporaryDirectory() as folder:
        spawn(_exchange, (processes, device.type, folder), processes)
        apart = max(float(path.read_text()) for path in Path(folder).glob("*.txt"))
    backend = f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if device.type == "cuda" else "gloo"
    alone = "; one GPU: started, reduced and gathered alone" if processes == 1 else ""
    figure = f"{processes} process(es), {backend}: off by {apart:.1e}{alone}"
    yield Row("shared class matrix against one process", figure, "at most 1e-5", apart <= 1e-5, True)


def _exchange(rank: int, processes: int, device_type: str, folder: str) -> None:
    """One process of `measure_nccl`; writes how far its part is from that of a process alone."""
    device = torch.device(device_type, rank) if device_type == "cuda" else torch.device("cpu")
    if device_type == "cuda":
        torch.cuda.set_device(rank)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes), LOCAL_WORLD_SIZE=str(processes))
    generator = torch.Generator().manual_seed(0)
    raw, labels = torch.randn(8 * processes, 16, generator=generator).to(device), torch.arange(8 * processes, device=device) * 3
    alone, whole = raw.clone().requires_grad_(), _arcface(processes, device)
    loss_alone = whole(alone, labels).loss
    loss_alone.backward()
    distributed.init_process_group(
        "nccl" if device_type == "cuda" else "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=processes
    )
    own, part = slice(8 * rank, 8 * rank + 8), _arcface(processes, device)
    local = raw[own].clone().requires_grad_()
    loss = part(local, labels[own]).loss
    loss.backward()
    assert alone.grad is not None and local.grad is not None and whole.matrix.grad is not None and part.matrix.grad is not None
    differences = [
        loss - loss_alone,
        local.grad / processes - alone.grad[own],  # data parallelism takes the mean over the processes
        part.matrix.grad - whole.matrix.grad[part.rows.start : part.rows.stop],
    ]
    apart = torch.stack([difference.detach().abs().max() for difference in differences]).max()
    distributed.all_reduce(apart, distributed.ReduceOp.MAX)
    distributed.barrier()
    Path(folder, f"{rank}.txt").write_text(str(float(apart)))
    distributed.destroy_process_group()


def _arcface(processes: int, device: torch.device) -> ArcFace:
    """Build a class matrix whose rows are distributed unevenly over the processes."""
    return ArcFace(16, 24 * processes + 1, margin=0.4, scale=16.0, chunk=64, negatives=None, seed=0).to(device)


def measure_steps(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Time the step of each model, and the project's own step with its waits, saving and resuming, while time is left."""
    started = time.monotonic()
    with choose_algorithms(deterministic=False):  # as in training
        for name, size in sizes.models.items():
            if time.monotonic() - started > MAX_SECONDS:
                yield Row(name, f"left out: {MAX_SECONDS} s have passed")
                continue
            yield _step_row(name, device, size, sizes.repeats, "same")[0]
            _release(device)
            yield from _own_step(name, device, size, sizes)
            _release(device)


def measure_head(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Measure the class head against its goals, with Adam, and with the class matrix's other optimisers."""
    with choose_algorithms(deterministic=False):
        for kind in ("same", "adafactor", "sparse_adam"):
            named = f"{sizes.head.classes:,} classes, {kind}" + (f", a {SAMPLED:.0%} sample" if kind == "sparse_adam" else "")
            row, share, costs, memory = _step_row(named, device, sizes.head, sizes.repeats, kind)
            yield row
            if kind == "same":
                yield Row("head's share of a step", f"{share:.1%}", "under 25 %", share < 0.25)
                yield Row("all costs of classes", f"{costs:.1%}", "under 40 %", costs < 0.40)
                if device.type == "cuda":
                    yield Row("peak memory", f"{memory:.1f} GiB", "under 24 GiB", memory < 24)
            _release(device)


def _release(device: torch.device) -> None:
    """Give the memory of what was measured back."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _step_row(name: str, device: torch.device, size: StepSize, repeats: int, kind: str) -> tuple[Row, float, float, float]:
    """Return the row, the head's share of the step, that of all costs of classes (with optimiser and clipping), and GiB.

    The gradients are timed in both memory formats, the step in the one that a training would choose.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step = TrainingStep(device, size, kind)
    seconds = dict[torch.memory_format, float]()
    for memory_format in (torch.contiguous_format, torch.channels_last):
        step.arrange(memory_format)
        seconds[memory_format] = measure_median(device, step.compute_first_gradients, repeats)
    last, contiguous = seconds[torch.channels_last], seconds[torch.contiguous_format]
    chosen = torch.contiguous_format if contiguous * MIN_GAIN <= last else torch.channels_last
    step.arrange(chosen)
    whole = measure_median(device, step.run, repeats)
    share = step.head_seconds / whole
    costs = (max(0.0, whole - seconds[chosen]) + step.head_seconds) / whole
    memory = torch.cuda.max_memory_allocated() / GIB if device.type == "cuda" else 0.0
    figure = (
        f"{1e3 * whole:.1f} ms, {size.batch / whole:.0f} images/s; head {share:.0%}, with optimisers and clipping {costs:.0%}; "
        f"{memory:.1f} GiB; gradients channels_last {1e3 * last:.1f} ms, contiguous {1e3 * contiguous:.1f} ms"
    )
    return Row(name, figure), share, costs, memory


def _own_step(name: str, device: torch.device, size: StepSize, sizes: Sizes) -> Iterator[Row]:
    """Measure Learner.learn on prepared batches: its time and waits; its state is saved and restored."""
    learner = _learner(size, sizes.precision)
    pixels = torch.randint(0, 256, (size.batch, size.image_size, size.image_size, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    labels, rows = torch.randint(size.classes, (size.batch,), device=device), torch.arange(size.batch)
    batch = (pixels.pin_memory() if device.type == "cuda" else pixels, labels, rows)

    def learn() -> None:
        learner.learn([batch], 1, lambda loss, rows: None, measure=False)

    own = measure_median(device, learn, sizes.repeats)
    waits = _count_waits(learn) if device.type == "cuda" else None
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        save_state(Path(folder), {}, Progress(batch=1), learner.state(), learner.fabric)
        saving = time.perf_counter() - started
        loaded = load_state(Path(folder), {}, learner.fabric)
        assert loaded is not None
        learner.restore(loaded[1])
    again = measure_median(device, learn, sizes.repeats)
    resumed = f"state saved in {saving:.1f} s; a step after resume {again / own:.2f} × before"
    yield Row(f"{name}, own step", f"{1e3 * own:.1f} ms in {learner.descriptor.memory_format}; {resumed}")
    if waits is not None:
        yield Row(f"{name}, waits a step", f"{waits}", "at most 2", waits <= 2)


def _count_waits(work: Callable[[], object]) -> int:
    """Count how often the work waits for the GPU, as torch's own debug mode sees it."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)


def _learner(size: StepSize, precision: str) -> Learner:
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": size.backbone, "dimensions": size.dimensions},
            "objective": {"kind": "arcface", "chunk": size.chunk},
            "precision": precision,
            "stages": [{"classes": size.classes, "image_size": size.image_size, "batch_size": size.batch}],
        }
    )
    fabric, descriptor = launch_fabric(settings.precision), Descriptor(settings.descriptor)
    chosen = choose_memory_format(descriptor, fabric.device, size.image_size, size.batch, precision, learns=True)
    network = set_up_network(fabric, descriptor, False, chosen)
    objective = Svmax(settings.objective.build(size.dimensions, size.classes, 0), None)
    return build_learner(fabric, descriptor, network, objective, settings, settings.stages[0])


def measure_loader(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Measure how many edited images per second the loader delivers from the cache, without a network."""
    rng = np.random.default_rng(0)
    for size, each in sizes.loader:
        side = round(1.5 * size)
        small = rng.integers(0, 256, (64, 24, 24, 3), dtype=np.uint8)
        squares = np.stack([cv2.resize(pixels, (side, side), interpolation=cv2.INTER_CUBIC) for pixels in small])
        images = CachedImages([f"T{row}" for row in range(len(squares))], squares, {})
        for extra in (False, True):
            edits = AugmentationSettings(family="query", intensity=0.75, extra=extra)
            data = EditedImages(images, edits, size, 0, overlay_material(images, images, len(images)))
            for leaves in (False, True):
                figures = {workers: _time_loader(data, workers, each, device, leaves) for workers in sizes.loader_workers}
                edited = f"{'paper and extra' if extra else 'paper'} edits at {size} px, I = 0.75"
                named = f"{edited}{', edits_on: device' if leaves else ''}, images/s"
                shown, most = ", ".join(f"{count} workers {speed:.0f}" for count, speed in figures.items()), max(figures.values())
                wanted = size == WANTED_SIZE
                yield Row(named, shown, f"at least {WANTED_SPEED:,}" if wanted else "", most >= WANTED_SPEED if wanted else None)
            left, _ = join_unfinished([UnfinishedImages(data)[0, row % 64, 0] for row in range(min(64, each))])
            left = left.pin_memory() if device.type == "cuda" else left
            seconds = measure_median(device, partial(finish_edits, left, device), sizes.repeats)
            yield Row(f"the device's part of a batch of {len(left)} of them", f"{1000 * seconds:.1f} ms")
    for size, _ in sizes.loader:
        rates = compare_decoders(
            device, size, min(4000, sizes.embed_images), min(64, sizes.embed_batch), max(sizes.loader_workers)
        )
        yield Row(f"JPEG files of {PHOTO[0]} × {PHOTO[1]} decoded for {size} px, images/s", rates)


def _time_loader(data: EditedImages, workers: int, each: int, device: torch.device, leaves_edits: bool) -> float:
    """Return images per second of so many workers, each of which edits `each` images or more, until the device has them."""
    batch = min(64, each)
    keys = [[(epoch, row % 64, 0) for row in range(batch)] for epoch in range(max(2, each // batch) * workers + workers)]
    options = {"batch_sampler": keys, "num_workers": workers, "pin_memory": device.type == "cuda", "prefetch_factor": 4}
    stream = iter(load_edited(data, leaves_edits, **options))
    for _ in range(workers):
        finish_edits(next(stream)[0], device)  # starts the workers, each of which opens fonts and emoji
    started = read_clock(device)
    seen = sum(len(finish_edits(pixels, device)) for pixels, _ in stream)
    return seen / (read_clock(device) - started)


def measure_embedding(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Compare embed_images on JPEG files of 1024 × 768 with the forward pass alone."""
    with tempfile.TemporaryDirectory() as name:
        found = write_photos(Path(name), sizes.embed_images)
        for backbone, size in sizes.embed:
            descriptor = Descriptor(DescriptorSettings(backbone=backbone)).eval().to(device)
            settings = EmbeddingSettings.model_validate({"batch_size": sizes.embed_batch, "precision": sizes.precision})
            measure_memory_format(Checkpoint(descriptor, size, {}), settings)
            batch = torch.randn(sizes.embed_batch, 3, size, size, device=device)
            embed = partial(embed_batch, descriptor, batch, [size], precision=sizes.precision)
            forward = measure_median(device, embed, sizes.repeats)
            started = read_clock(device)
            for _ in embed_images(Checkpoint(descriptor, size, {}), found, settings):
                pass
            whole, alone = len(found) / (read_clock(device) - started), sizes.embed_batch / forward
            figure = f"{whole:.0f} images/s of {alone:.0f} in the forward pass alone: {whole / alone:.0%}"
            yield Row(f"embedding, {backbone} at {size} px", figure, "at least 80 %", whole >= 0.8 * alone)


def measure_search(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Compare exact search on the device with that on the CPU: time, and whether all bits are equal."""
    queries, references = simulate(sizes.queries, sizes.references)
    backend, count = TorchSearch(device), 10 * sizes.queries
    with use_backend(backend):
        search_pairs(queries[:100], references[:10_000], 1000)  # loads the libraries
        started = read_clock(device)
        found = search_pairs(queries, references, count)
        seconds = read_clock(device) - started
    started = time.perf_counter()
    expected = search_pairs(queries, references, count)
    on_cpu = time.perf_counter() - started
    parts = ("queries", "references", "distances")
    same = all(np.array_equal(getattr(found, part), getattr(expected, part)) for part in parts)
    what = f"search, {sizes.queries:,} × {sizes.references:,}"
    yield Row(what, f"{seconds:.2f} s (on the CPU {on_cpu:.1f} s)", "at most 5 s", seconds <= 5)
    yield Row("pairs and distances", "equal to the CPU's" if same else "differ from the CPU's", "equal", same, True)


def measure_neighbours(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Compare the search for neighbours of query normalisation on the device with Faiss on the CPU."""
    queries, training = simulate(sizes.queries, sizes.references, seed=1)
    with use_backend(TorchSearch(device)):
        find_nearest(queries[:100], training[:10_000], NEIGHBOURS, "cosine")
        started = read_clock(device)
        cosines, rows = find_nearest(queries, training, NEIGHBOURS, "cosine")
        seconds = read_clock(device) - started
    some = slice(0, 1000)
    expected, expected_rows = find_nearest(queries[some], training, NEIGHBOURS, "cosine")
    yield Row(f"{NEIGHBOURS} neighbours of {sizes.queries:,} among {sizes.references:,}", f"{seconds:.2f} s")
    same, off = (rows[some] == expected_rows).mean(), np.abs(cosines[some] - expected).max()
    near = bool(same >= 0.9999 and off < 1e-5)
    yield Row("the same rows as Faiss's; cosines off by", f"{same:.4%}; {off:.1e}", "99.99 %; 1e-5", near, True)


def measure_determinism(device: torch.device, sizes: Sizes) -> Iterator[Row]:
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
    """Train; return the digest of the weights.

    Args:
        folder: Folder of the training.
        images: The training images.
        sizes: Sizes of the part.
        stop: Step before which a first attempt is interrupted; None for none.
    """
    batch = min(64, len(images) // 2)
    settings = ModelSettings.model_validate(
        {
            "descriptor": sizes.trained,
            "precision": sizes.precision,
            "deterministic": True,
            "stages": [{"image_size": 64, "batch_size": batch, "epochs": sizes.epochs}],
        }
    )

    def train() -> Path:
        return train_model(settings, images, images, folder, folder.parent / "cache", seed=0)

    if stop is not None:
        with _stopping_at(stop), suppress(KeyboardInterrupt):
            train()
    return hashlib.sha256(train().read_bytes()).hexdigest()


@contextmanager
def _stopping_at(step: int) -> Iterator[None]:
    """Within the block, training saves its state after every step, and is interrupted at `step`."""
    from models.training import stage

    learn, calls, before = (
        Learner.learn,
        list[int](),
        (stage.SAVE_INTERVAL_SECONDS, stage.MAX_SAVING_SHARE, stage.STEPS_PER_CHECK),
    )

    def stopping(self: Learner, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    stage.SAVE_INTERVAL_SECONDS, stage.MAX_SAVING_SHARE, stage.STEPS_PER_CHECK = 0.0, 1e9, 1
    Learner.learn = stopping  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Learner.learn = learn  # type: ignore[method-assign]
        stage.SAVE_INTERVAL_SECONDS, stage.MAX_SAVING_SHARE, stage.STEPS_PER_CHECK = before
