"""A training step of benchmarks/gpu.py, and the clock that waits for the device."""

import time
from dataclasses import dataclass

import torch

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.clipping import clip_gradients, join_rows
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings

SAMPLED = 0.1  # share of the classes that a step compares with class_kind sparse_adam


@dataclass(frozen=True)
class StepSize:
    """Sizes of a step; the paper's by default.

    Attributes:
        backbone: Name of a timm model.
        classes: Number of classes.
        dimensions: Dimensions of the embedding.
        batch: Images per step.
        image_size: Side of the square input in pixels.
        chunk: Classes per chunk; more than on a CPU, since each chunk launches several kernels.
    """

    backbone: str = "tf_efficientnet_b5"
    classes: int = 1_800_000
    dimensions: int = 256
    batch: int = 128
    image_size: int = 160
    chunk: int = 131_072


class TrainingStep:
    """A training step in bf16.

    Attributes:
        head_seconds: Seconds of the class head's forward and backward pass in the last step.
    """

    def __init__(self, device: torch.device, size: StepSize, class_kind: str) -> None:
        settings = DescriptorSettings(backbone=size.backbone, dimensions=size.dimensions)
        self.device, self.head_seconds = device, 0.0
        self.descriptor = Descriptor(settings).to(device)
        negatives = SAMPLED if class_kind == "sparse_adam" else None
        self.head = ArcFaceSettings(chunk=size.chunk, negatives=negatives).build(size.dimensions, size.classes, 0).to(device)
        self.head.sparse_rows = class_kind == "sparse_adam"
        optimizing = OptimizerSettings.model_validate({"class_kind": class_kind})
        self.optimizers = build_optimizers(self.descriptor, self.head, optimizing, fused=device.type == "cuda")
        self.images = torch.randn(size.batch, 3, size.image_size, size.image_size, device=device)
        self.labels = torch.randint(size.classes, (size.batch,), device=device)
        self.arrange(torch.channels_last)

    def arrange(self, memory_format: torch.memory_format) -> None:
        """Arrange network and images in a memory format."""
        self.descriptor.arrange(memory_format)
        self.images = self.images.contiguous(memory_format=memory_format)

    def compute_gradients(self) -> None:
        with torch.autocast(self.device.type, torch.bfloat16):
            embeddings = self.descriptor(self.images, raw=True)
        leaf = embeddings.detach().requires_grad_()
        started = self._read_clock()
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.head(leaf, self.labels).loss
        loss.backward()
        self.head_seconds = self._read_clock() - started
        embeddings.backward(leaf.grad)

    def compute_first_gradients(self) -> None:
        """Compute gradients that are added to none, as those of a step are."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.compute_gradients()

    def run(self) -> float:
        """Run one step; return its seconds."""
        started = self._read_clock()
        self.compute_first_gradients()
        join_rows(self.head.matrix, batches=1)
        clip_gradients([*self.descriptor.parameters(), *self.head.parameters()], 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return self._read_clock() - started

    def _read_clock(self) -> float:
        return read_clock(self.device)


def read_clock(device: torch.device) -> float:
    """Wait until the device has finished its work; return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
