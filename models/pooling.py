"""Generalised mean pooling."""

import torch
from torch import Tensor, nn

EPSILON = 1e-6


class GeM(nn.Module):
    """e_c = ((1/|Ω|) Σ_u max(x_cu, ε)^p)^{1/p}: [n, c, h, w] → [n, c], always in float32; p is trainable on demand."""

    def __init__(self, exponent: float = 3.0, trainable: bool = True) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(float(exponent)), requires_grad=trainable)

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            powers = features.float().clamp(min=EPSILON).pow(self.exponent)
            return powers.mean(dim=(2, 3)).pow(1 / self.exponent)
