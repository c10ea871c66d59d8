"""A whole training step at the paper's size on a GPU: memory, time and how much of the card is used.

    python benchmarks/class_head.py      where there is a GPU

The second part of that benchmark: it prints peak memory, the class head's share of the time, images/s, and the
share of the card's bf16 peak.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils.flop_counter import FlopCounterMode

from models.network.descriptor import Descriptor
from models.objectives.settings import ArcFaceSettings
from models.settings import DescriptorSettings, OptimizerSettings
from models.training.schedule import build_optimizers

WARM_UP, STEPS = 5, 20
PEAK_SIDE, PEAK_REPEATS = 8192, 20  # of the matrices whose product tells the card's peak


@dataclass(frozen=True)
class StepSize:
    """The paper's by default; chunk: larger than for a CPU, since each chunk costs a GPU the start of some kernels."""

    backbone: str = "tf_efficientnet_b5"
    classes: int = 1_800_000
    dimensions: int = 256
    batch: int = 128
    image_size: int = 160
    chunk: int = 131_072


class TrainingStep:
    """One step in bf16; `head_seconds` are those of the class head's forward and backward in the last one."""

    def __init__(self, device: torch.device, size: StepSize, class_kind: str) -> None:
        settings = DescriptorSettings(backbone=size.backbone, dimensions=size.dimensions)
        self.device, self.head_seconds = device, 0.0
        self.descriptor = Descriptor(settings).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
        self.head = ArcFaceSettings(chunk=size.chunk).build(size.dimensions, size.classes, 0).to(device)
        optimizing = OptimizerSettings.model_validate({"class_kind": class_kind})
        self.optimizers = build_optimizers(self.descriptor, self.head, optimizing, fused=device.type == "cuda")
        images = torch.randn(size.batch, 3, size.image_size, size.image_size, device=device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(size.classes, (size.batch,), device=device)

    def gradients(self) -> None:
        with torch.autocast(self.device.type, torch.bfloat16):
            embeddings = self.descriptor(self.images, raw=True)
        leaf = embeddings.detach().requires_grad_()
        started = self._now()
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.head(leaf, self.labels).loss
        loss.backward()
        self.head_seconds = self._now() - started
        embeddings.backward(leaf.grad)

    def whole(self) -> float:
        """Seconds of one step."""
        started = self._now()
        self.gradients()
        clip_grad_norm_([*self.descriptor.parameters(), *self.head.parameters()], 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return self._now() - started

    def _now(self) -> float:
        return _finished(self.device)


def print_whole_step(device: torch.device, size: StepSize | None = None) -> None:
    """With Adam and with Adafactor for the class matrix."""
    size = size or StepSize()
    peak = _bf16_peak(device, PEAK_SIDE)
    print(
        f"{torch.cuda.get_device_name(device)}, {size.classes:,} classes × {size.dimensions}, {size.backbone} at "
        f"{size.image_size} px, batch {size.batch}, bf16; fastest bf16 product measured: {peak / 1e12:.0f} TFLOP/s"
    )
    for class_kind in ("same", "adafactor"):
        torch.cuda.empty_cache()
        step = TrainingStep(device, size, class_kind)
        torch.cuda.reset_peak_memory_stats(device)
        for _ in range(WARM_UP):
            step.whole()
        timings = [(step.whole(), step.head_seconds) for _ in range(STEPS)]
        seconds, head_seconds = sorted(timings)[STEPS // 2]
        memory = torch.cuda.max_memory_allocated(device)  # before the operations are counted, which costs memory
        operations = _counted(step.gradients)
        print(
            f"class matrix by {'adam' if class_kind == 'same' else class_kind}: {1000 * seconds:.0f} ms a step, "
            f"{size.batch / seconds:.0f} images/s, {operations / seconds / peak:.1%} of the peak; head {1000 * head_seconds:.1f} "
            f"ms, {head_seconds / seconds:.0%} of the step (to reach < 25 %); peak memory {memory / 2**30:.1f} GiB "
            "(to reach < 24)"
        )
        del step


def _counted(work: Callable[[], None]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def _bf16_peak(device: torch.device, side: int) -> float:
    """Operations per second of the fastest of some large products."""
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    fastest = float("inf")
    for _ in range(PEAK_REPEATS):
        started = _finished(device)
        left @ right
        fastest = min(fastest, _finished(device) - started)
    return 2 * side**3 / fastest


def _finished(device: torch.device) -> float:
    """The time, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
