"""Generalised mean pooling."""

import torch
from torch import Tensor, nn

EPSILON = 1e-6


class GeM(nn.Module):
    """e_c = ((1/|Ω|) Σ_u max(x_cu, ε)^p)^{1/p}: [n, c, h, w] → [n, c], always in float32; p is trainable on demand.

    Powers are of each channel's share of its largest value: ε^p of a dead channel is 0 in float32 from p = 8 on, and the
    gradient of its root no number.
    """

    def __init__(self, exponent: float = 3.0, trainable: bool = True) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(float(exponent)), requires_grad=trainable)

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            values = features.float().clamp(min=EPSILON)
            largest = values.detach().amax(dim=(2, 3), keepdim=True)  # which the result does not depend on
            means = (values / largest).pow(self.exponent).mean(dim=(2, 3))
            return largest[:, :, 0, 0] * means.pow(1 / self.exponent)
