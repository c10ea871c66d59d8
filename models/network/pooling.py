"""Generalised mean pooling (GeM) and its exponent p."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EPSILON = 1e-6


class GeM(nn.Module):
    """e_c = ((1/|Ω|) Σ_u max(x_cu, ε)^p)^{1/p} (MultiGrain, equation 1): [n, c, h, w] → [n, c], always in float32.

    Powers are of each channel's share of its largest value: ε^p of a dead channel is 0 in float32 from p = 8 on, and the
    gradient of its root NaN.
    """

    def __init__(self, exponent: float = 3.0, trainable: bool = True) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(float(exponent)), requires_grad=trainable)

    def forward(self, features: Tensor) -> Tensor:
        """Pool maps [n, c, h, w] over their positions."""
        with torch.autocast(features.device.type, enabled=False):
            values = features.float().clamp(min=EPSILON)
            largest = values.detach().amax(dim=(2, 3), keepdim=True)  # which the result does not depend on
            means = (values / largest).pow(self.exponent).mean(dim=(2, 3))
            return largest[:, :, 0, 0] * means.pow(1 / self.exponent)

    def set_exponent(self, exponent: float | None) -> None:
        """Replace p for good, for a network that only embeds from here on; None leaves it as it is."""
        if exponent is not None:
            self.exponent.data.fill_(exponent)

    @contextmanager
    def temporary_exponent(self, exponent: float | None = None) -> Iterator[None]:
        """Set p, where one is given, and let the block change it; afterwards value, gradient and trainability are restored."""
        stored = self.exponent
        value, gradient, trainable = stored.detach().clone(), stored.grad, stored.requires_grad
        self.set_exponent(exponent)
        try:
            yield
        finally:
            stored.requires_grad_(trainable)
            stored.data.copy_(value)
            stored.grad = gradient
