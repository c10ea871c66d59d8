"""Parts of benchmarks/gpu.py: time, memory and waits of training steps, and the class head's share."""

import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from gpu_row import Row, measure_median
from gpu_sizes import Sizes
from gpu_step import SAMPLED, StepSize, TrainingStep

from image_copies.models.device import choose_algorithms
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.memory_format import MIN_GAIN, choose_memory_format
from image_copies.models.objectives.svmax import Svmax
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.learner import Learner, build_learner, set_up_network
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import Progress, load_state, save_state

GIB = 2**30
MAX_SECONDS = 400  # after which a part begins nothing more


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
