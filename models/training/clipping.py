"""Clipping of gradients."""

from collections.abc import Sequence

from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from image_copies.models.distributed import sum_over_processes


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float, sharded: nn.Parameter | None = None) -> None:
    """Clip the gradients by their norm over all parameters that have one, in place; no GPU is waited for.

    Of the parameter `sharded` every process has other rows.
    """
    gradients = {id(parameter): parameter.grad for parameter in parameters if parameter.grad is not None}
    own = [] if sharded is None else [gradients[id(sharded)]] if id(sharded) in gradients else []
    shared = [gradient for key, gradient in gradients.items() if sharded is None or key != id(sharded)]
    norm = get_total_norm(shared) ** 2
    if own:
        norm = norm + sum_over_processes(get_total_norm(own) ** 2)
    norm = norm.sqrt()
    clip_grads_with_norm_(parameters, limit, norm)
