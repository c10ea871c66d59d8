"""Parts of benchmarks/gpu.py: time, memory and waits of training steps, and the class head's share."""

import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from gpu_row import Row, measure_busy_seconds, measure_median
from gpu_sizes import Sizes
from gpu_step import StepSize, TrainingStep, draw_head

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.memory_format import MIN_GAIN, choose_memory_format
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.svmax import Svmax
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.learner import Learner, build_learner, set_up_network
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import Progress, WrittenState, load_state

GIB = 2**30
KINDS = ("same", "adafactor")  # optimisers of the class matrix
WAYS = {"eager": None, "graph": "reduce-overhead", "compiled": "default"}  # modes of torch.compile; the second uses CUDA graphs
MAX_SHARE = 0.9  # of the free memory that a step may be expected to need
CLASS_COPIES = 5  # of the class matrix: itself, its gradient, two moments, and what is rounded or copied


def measure_batches(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time the project's own step of a model in one of WAYS by batch size, and the share in which the device computes."""
    name, way = item.split()
    for batch in sizes.batches[way]:
        size = replace(sizes.models[name], batch=batch)
        if refusal := _find_refusal(device, size):
            yield Row(f"{name}, {way}, batch {batch}", refusal)
            continue
        learn = _own_step(size, sizes, WAYS[way])[1]
        seconds = measure_median(device, learn, sizes.repeats)
        busy = measure_busy_seconds(device, learn, min(3, sizes.repeats)) / seconds
        memory = f"; {torch.cuda.max_memory_allocated() / GIB:.1f} GiB" if device.type == "cuda" else ""
        figure = f"{1e3 * seconds:.1f} ms, {batch / seconds:.0f} images/s; the device computes {busy:.0%} of it{memory}"
        yield Row(f"{name}, {way}, batch {batch}", figure)
        del learn
        _release(device)


def measure_steps(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time the step of a model, and the project's own step with its waits, saving and resuming."""
    size = sizes.models[item]
    if refusal := _find_refusal(device, size):
        yield Row(item, refusal)
        return
    yield _step_row(item, device, size, sizes.repeats, "same")[0]
    _release(device)
    learner, learn = _own_step(size, sizes)
    own = measure_median(device, learn, sizes.repeats)
    waits = _count_waits(learn) if device.type == "cuda" else None
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        writing = WrittenState(Path(folder), {}, Progress(batch=1), learner.state(), learner.fabric)
        held = time.perf_counter() - started
        writing.finish()
        saving = time.perf_counter() - started
        loaded = load_state(Path(folder), {}, learner.fabric)
        assert loaded is not None
        learner.restore(loaded[1])
    again = measure_median(device, learn, sizes.repeats)
    resumed = f"state saved in {saving:.1f} s, training held up for {held:.1f} s; a step after resume {again / own:.2f} × before"
    yield Row(f"{item}, own step", f"{1e3 * own:.1f} ms in {learner.descriptor.memory_format}; {resumed}")
    if waits is not None:
        yield Row(f"{item}, waits a step", f"{waits}", "at most 2", waits <= 2)


def measure_head(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Measure the class head with one of KINDS at a batch size: memory at the usual one, the head's share at the large one."""
    kind, batch = item.split()
    size = replace(sizes.head, batch=int(batch))
    rounded = ", rounded_rows" if size.head_settings().rounded_rows else ""
    row, share, costs, memory = _step_row(
        f"{size.classes:,} classes, {kind}, batch {batch}{rounded}", device, size, sizes.repeats, kind
    )
    yield row
    if size.batch == sizes.large_batch:
        yield Row("head's share of a step", f"{share:.1%}", "under 25 %", share < 0.25)
        yield Row("all costs of classes", f"{costs:.1%}", "under 40 %", costs < 0.40)
    elif kind == "same" and device.type == "cuda":
        yield Row("peak memory", f"{memory:.1f} GiB", "under 24 GiB", memory < 24)


def _find_refusal(device: torch.device, size: StepSize) -> str:
    """Return why a step is skipped whose memory the device has not free; empty where it has."""
    if device.type != "cuda":
        return ""
    network = Descriptor(DescriptorSettings(backbone=size.backbone, dimensions=size.dimensions)).to(device)
    needed = (
        size.batch * measure_saved_bytes(network, size.image_size, device) + CLASS_COPIES * 4 * size.classes * size.dimensions
    )
    del network
    _release(device)
    free = torch.cuda.mem_get_info()[0]
    return "" if needed <= MAX_SHARE * free else f"skipped: needs about {needed / GIB:.0f} GiB, {free / GIB:.0f} are free"


def measure_saved_bytes(network: Descriptor, pixels: int, device: torch.device) -> float:
    """Return how many bytes an image's forward pass in bf16 keeps for the backward pass."""
    images, kept = torch.randn(2, 3, pixels, pixels, device=device), dict[int, int]()

    def note(saved: torch.Tensor) -> torch.Tensor:
        storage = saved.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved), torch.autocast(device.type, torch.bfloat16):
        result = network(images, raw=True)
    parameters = {value.untyped_storage().data_ptr() for value in network.parameters()}
    del result
    return sum(size for place, size in kept.items() if place not in parameters) / len(images)


def _release(device: torch.device) -> None:
    """Give the memory of what was measured back."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _step_row(name: str, device: torch.device, size: StepSize, repeats: int, kind: str) -> tuple[Row, float, float, float]:
    """Return the row, the head's share of the step, that of all costs of classes (with optimiser and clipping), and GiB.

    The gradients are timed in both memory formats, the step in the one that a training would choose.
    """
    step = TrainingStep(device, size, kind)
    seconds = dict[torch.memory_format, float]()
    for memory_format in (torch.contiguous_format, torch.channels_last):
        step.arrange(memory_format)
        seconds[memory_format] = measure_median(device, step.compute_gradients, repeats)
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


def _own_step(size: StepSize, sizes: Sizes, mode: str | None = None) -> tuple[Learner, Callable[[], object]]:
    """Return a learner and its step on a prepared batch; with a mode of torch.compile, of a compiled network."""
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": size.backbone, "dimensions": size.dimensions},
            "objective": {"kind": "arcface", "chunk": size.chunk},
            "precision": sizes.precision,
            "stages": [{"classes": size.classes, "image_size": size.image_size, "batch_size": size.batch}],
        }
    )
    fabric, descriptor = launch_fabric(settings.precision), Descriptor(settings.descriptor)
    chosen = choose_memory_format(descriptor, fabric.device, size.image_size, size.batch, settings.precision, learns=True)
    network = set_up_network(fabric, descriptor, False, chosen)
    if mode is not None:
        compiled = torch.compile(descriptor, dynamic=False, mode=mode, backend=sizes.compiler)
        network = fabric.setup_module(compiled)  # type: ignore[arg-type]  # what torch.compile returns is typed as any callable
    head = Svmax(draw_head(size.head_settings(), size, fabric.device), None)
    learner = build_learner(fabric, descriptor, network, head, settings, settings.stages[0])
    pixels = torch.randint(0, 256, (size.batch, size.image_size, size.image_size, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    labels = torch.randint(size.classes, (size.batch,), device=fabric.device)
    batch = (pixels.pin_memory() if fabric.device.type == "cuda" else pixels, labels, torch.arange(size.batch))
    return learner, lambda: learner.learn([batch], 1, lambda loss, rows: None, measure=False)


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
