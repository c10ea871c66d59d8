"""What the processes of a training exchange when each holds a part of the class matrix. Alone, everything is the identity."""

from typing import Any

import torch
from torch import Tensor, distributed


def process_count() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_number() -> int:
    """This one's number, from 0."""
    return distributed.get_rank() if process_count() > 1 else 0


def shard_rows(classes: int, rank: int, ranks: int) -> range:
    """The consecutive classes that process `rank` of `ranks` holds; the first processes hold one more where it doesn't divide."""
    share, rest = divmod(classes, ranks)
    start = rank * share + min(rank, rest)
    return range(start, start + share + (rank < rest))


def gathered(local: Tensor) -> Tensor:
    """Rows of all processes, in their order: [n, …] → [n of all, …]; processes may have different numbers of rows.

    Backward: the gradient of a loss that all processes compute from all rows, for the own rows, times the number of processes:
    data parallelism then averages the backbone's gradients over the processes, which gives that loss's own gradient.
    """
    if process_count() == 1:
        return local
    rows: Tensor = _Gather.apply(local)  # type: ignore[no-untyped-call]
    return rows


def summed(local: Tensor) -> Tensor:
    """The sum over processes, in place and without gradient."""
    if process_count() > 1:
        distributed.all_reduce(local)
    return local


def joined_log_sum(local: Tensor) -> Tensor:
    """log Σ exp over processes of their log-sum-exps [n], without gradient; −∞ stands for an empty sum."""
    if process_count() == 1:
        return local
    highest = local.clone()
    distributed.all_reduce(highest, distributed.ReduceOp.MAX)
    highest.clamp_(min=torch.finfo(highest.dtype).min)  # −∞ − −∞ is no number
    return highest + summed((local - highest).exp()).log()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.long, device=local.device) for _ in range(process_count())]
        distributed.all_gather(counts, torch.tensor([len(local)], device=local.device))
        lengths = [int(count) for count in counts]
        padded = local.new_zeros((max(lengths), *local.shape[1:]))
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in lengths]
        distributed.all_gather(parts, padded)
        start = sum(lengths[: process_number()])
        ctx.own = slice(start, start + len(local))
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0][ctx.own] * process_count()
