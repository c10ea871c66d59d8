"""The last layers of a network: generalised mean pooling (GeM), and a linear layer that computes rows one by one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-6  # ε, the lower bound of activations


class GeM(nn.Module):
    """e_c = ((1/|Ω|) Σ_u max(x_cu, ε)^p)^{1/p} (MultiGrain, equation 1): [n, c, h, w] → [n, c], always in float32.

    p begins at `exponent`, above 0. Each channel is divided by its maximum before the power: from p = 8 on, ε^p of a dead channel
    would underflow to 0 in float32 and the gradient of its root would be NaN.
    """

    def __init__(self, exponent: float = 3.0, trainable: bool = True) -> None:
        super().__init__()
        self.exponent = nn.Parameter(torch.tensor(float(exponent)), requires_grad=trainable)

    def forward(self, features: Tensor) -> Tensor:
        """Pool feature maps [n, c, h, w] over their positions to [n, c]."""
        with torch.autocast(features.device.type, enabled=False):
            values = features.float().clamp(min=EPSILON)
            largest = values.detach().amax(dim=(2, 3), keepdim=True)  # the result does not depend on it
            means = (values / largest).pow(self.exponent).mean(dim=(2, 3))
            return largest[:, :, 0, 0] * means.pow(1 / self.exponent)

    def set_exponent(self, exponent: float | None) -> None:
        """Set p permanently; None changes nothing."""
        if exponent is not None:
            self.exponent.data.fill_(exponent)

    @contextmanager
    def set_exponent_temporarily(self, exponent: float | None = None) -> Iterator[None]:
        """Set p, unless to None, within the block, which may change it further; then restore value, gradient and trainability."""
        stored = self.exponent
        value = stored.detach().clone()
        gradient = stored.grad
        trainable = stored.requires_grad
        self.set_exponent(exponent)
        try:
            yield
        finally:
            stored.requires_grad_(trainable)
            stored.data.copy_(value)
            stored.grad = gradient


def apply_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return inputs [n, c] times the transpose of `weight` [d, c], plus `bias` [d]: [n, d].

    In inference mode on a CPU the rows are multiplied one by one: the last bits of a row of a product can depend on how many rows
    there are. It costs 0.02 to 0.2 ms an image.
    """
    if torch.is_inference_mode_enabled() and inputs.device.type == "cpu":
        return torch.cat([functional.linear(row, weight, bias) for row in inputs.split(1)])
    return functional.linear(inputs, weight, bias)


def whiten(embeddings: Tensor, matrix: Tensor, mean: Tensor) -> Tensor:
    """Return Φ(e) = S (e/‖e‖ − µ) of embeddings [n, d], with `matrix` S [d, d] and `mean` µ [d] (MultiGrain, section 3.4)."""
    return apply_linear(functional.normalize(embeddings) - mean, matrix)
