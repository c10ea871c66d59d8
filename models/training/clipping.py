"""Clipping of gradients."""

from collections.abc import Sequence

from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from image_copies.models.distributed import sum_over_processes


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float, sharded: nn.Parameter | None = None) -> None:
    """Clip the gradients by their norm over all parameters that have one, in place; no GPU is waited for.

    Of the parameter `sharded` every process has other rows.
    """
    squares = get_total_norm([each.grad for each in parameters if each.grad is not None and each is not sharded]) ** 2
    if sharded is not None and sharded.grad is not None:
        squares = squares + sum_over_processes(get_total_norm(sharded.grad) ** 2)
    clip_grads_with_norm_(parameters, limit, squares.sqrt())
