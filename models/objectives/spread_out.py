"""The spread-out regulariser, the baseline that SVMax is compared with (X. Zhang et al., 2017)."""

import torch
from torch import Tensor


def spread_out_penalty(rows: Tensor, labels: Tensor) -> Tensor:
    """Return M₁² + max(0, M₂ − 1/d): first and second moment of the products of rows [b, d] of different classes [b].

    The formula assumes unit rows: those that are spread evenly over the sphere have M₁ = 0 and M₂ = 1/d. 0 for one class.
    """
    with torch.autocast(rows.device.type, enabled=False):
        different = labels[:, None] != labels[None]
        products = (rows.float() @ rows.float().T)[different]
        pairs = max(1, len(products))
        first, second = products.sum() / pairs, products.square().sum() / pairs
        return first.square() + (second - 1 / rows.shape[1]).clamp(min=0)
