"""A training step as a user writes it without this project: timm's network, a dense class matrix, torch's own losses and Adam."""

import math
from collections.abc import Callable

import timm
import torch
from gpu_sizes import StepSize
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

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
