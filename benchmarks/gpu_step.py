"""A training step of benchmarks/gpu.py."""

from dataclasses import dataclass

import torch
from gpu_row import mark, seconds_between
from torch import nn

from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.objectives.arcface import ArcFace
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.clipping import clip_gradients
from image_copies.models.training.schedule import build_optimizers
from image_copies.models.training.settings import OptimizerSettings


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

    def head_settings(self) -> ArcFaceSettings:
        """The class head's settings, for batches larger than those of isc2021.yaml as in isc2021-batch-512.yaml."""
        return ArcFaceSettings(chunk=self.chunk, rounded_rows=self.batch > 64)


class TrainingStep:
    """A training step in bf16."""

    def __init__(self, device: torch.device, size: StepSize, class_kind: str) -> None:
        settings = DescriptorSettings(backbone=size.backbone, dimensions=size.dimensions)
        self.device = device
        self.descriptor = Descriptor(settings).to(device)
        self.head = draw_head(size.head_settings(), size, device)
        optimizing = OptimizerSettings.model_validate({"class_kind": class_kind})
        self.optimizers = build_optimizers(self.descriptor, self.head, optimizing, fused=device.type == "cuda")
        self.images = torch.randn(size.batch, 3, size.image_size, size.image_size, device=device)
        self.labels = torch.randint(size.classes, (size.batch,), device=device)
        self.head_began = self.head_ended = mark(device)
        self.arrange(torch.channels_last)

    @property
    def head_seconds(self) -> float:
        """Seconds of the class head's forward and backward pass in the last step."""
        return seconds_between(self.head_began, self.head_ended)

    def arrange(self, memory_format: torch.memory_format) -> None:
        """Arrange network and images in a memory format."""
        self.descriptor.arrange(memory_format)
        self.images = self.images.contiguous(memory_format=memory_format)

    def compute_gradients(self) -> None:
        """Compute gradients that are added to none, as those of a step are."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16):
            embeddings = self.descriptor(self.images, raw=True)
        leaf = embeddings.detach().requires_grad_()
        self.head_began = mark(self.device)
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.head(leaf, self.labels).loss
        loss.backward()
        self.head_ended = mark(self.device)
        embeddings.backward(leaf.grad)

    def run(self) -> None:
        """Do one step."""
        self.compute_gradients()
        clip_gradients([*self.descriptor.parameters(), *self.head.parameters()], 1.0)
        for optimizer in self.optimizers:
            optimizer.step()


def draw_head(settings: ArcFaceSettings, size: StepSize, device: torch.device) -> ArcFace:
    """Build an ArcFace of so many classes on the device, where its matrix is drawn in no time."""
    head = settings.build(size.dimensions, 2, 0)
    head.classes, head.rows = size.classes, range(size.classes)
    drawn = torch.randn(size.classes, size.dimensions, device=device)
    head.matrix = nn.Parameter(drawn.div_(drawn.norm(dim=1, keepdim=True)))
    return head.to(device)
