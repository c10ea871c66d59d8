"""A linear layer whose vectors do not depend on the batch that they are computed in."""

import torch
from torch import Tensor
from torch.nn import functional


def apply_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return inputs [n, c] times the transpose of `weight` [d, c], plus `bias` [d]: [n, d].

    In inference mode on a CPU the rows are multiplied one by one: the last bits of a row of a product can depend on how many rows
    there are. It costs 0.02 to 0.2 ms an image.
    """
    if torch.is_inference_mode_enabled() and inputs.device.type == "cpu":
        return torch.cat([functional.linear(row, weight, bias) for row in inputs.split(1)])
    return functional.linear(inputs, weight, bias)
