"""Clipping of gradients, of which one may be that of a few rows of a class matrix."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.sparse import check_sparse_tensor_invariants

from image_copies.models.distributed import sum_over_processes


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float, sharded: nn.Parameter | None = None) -> None:
    """Clip the gradients by their norm over all parameters that have one, in place; no GPU is waited for.

    Of the parameter `sharded` every process has other rows.
    """
    gradients = {id(parameter): _values(parameter.grad) for parameter in parameters if parameter.grad is not None}
    own = [] if sharded is None else [gradients[id(sharded)]] if id(sharded) in gradients else []
    shared = [gradient for key, gradient in gradients.items() if sharded is None or key != id(sharded)]
    norm = get_total_norm(shared) ** 2
    if own:
        norm = norm + sum_over_processes(get_total_norm(own) ** 2)
    norm = norm.sqrt()
    clip_grads_with_norm_([parameter for parameter in parameters if not _has_rows(parameter)], limit, norm)
    for parameter in filter(_has_rows, parameters):
        gradients[id(parameter)].mul_((limit / (norm + 1e-6)).clamp(max=1.0))  # as clip_grads_with_norm_ does


def join_rows(parameter: nn.Parameter, batches: int) -> None:
    """Turn the gradient of rows that `batches` backward passes have left into one with each row once, as optimisers want it.

    The rows of one pass are such already, which torch forgets; to find out again would make a GPU wait.
    """
    gradient = parameter.grad
    if gradient is None or not gradient.is_sparse:
        return
    if batches > 1:
        parameter.grad = gradient.coalesce()
        return
    with check_sparse_tensor_invariants(False):  # or torch warns that it does not
        rows, values = gradient._indices(), gradient._values()
        parameter.grad = torch.sparse_coo_tensor(rows, values, gradient.shape, is_coalesced=True)


def _has_rows(parameter: nn.Parameter) -> bool:
    return parameter.grad is not None and parameter.grad.is_sparse


def _values(gradient: Tensor) -> Tensor:
    """Return the gradient's values: all, or with one for some rows, theirs."""
    return gradient._values() if gradient.is_sparse else gradient
