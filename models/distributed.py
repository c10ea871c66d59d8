"""What the processes of a training exchange: rows of a batch, sums, log-sum-exps. With one process, all of it is the identity."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn

from data.errors import UserError
from data.process import process_count, process_rank
from models.device import is_lack_of_memory

LOST = ("connection", "peer", "timed out", "timeout", "nccl", "gloo")  # in what NCCL and gloo say of a process that is gone


def group_size() -> int:
    """Number of processes that train together; 1 until they have joined one group."""
    joined = distributed.is_available() and distributed.is_initialized()
    return process_count() if joined else 1


def group_rank() -> int:
    """Number of this process among them, from 0."""
    return process_rank() if group_size() > 1 else 0


def shard_rows(classes: int, rank: int, processes: int) -> range:
    """The consecutive classes that process `rank` of `processes` holds; the first processes hold one more where needed."""
    share, rest = divmod(classes, processes)
    start = rank * share + min(rank, rest)
    return range(start, start + share + (rank < rest))


def gather_rows(local: Tensor) -> Tensor:
    """Rows of all processes, in the order of the processes: [n, …] → [n of all, …]; n may differ between processes.

    Backward gives the gradient for this process's own rows of a loss that every process computes from all rows, times the
    number of processes. Data parallelism then averages the backbone's gradients over the processes, which results in that
    loss's own gradient.
    """
    if group_size() == 1:
        return local
    rows: Tensor = _Gather.apply(local)  # type: ignore[no-untyped-call]  # torch's apply has no types
    return rows


def sum_over_processes(local: Tensor) -> Tensor:
    """The elementwise sum over processes, in place and without gradient."""
    if group_size() > 1:
        distributed.all_reduce(local)
    return local


def log_sum_over_processes(local: Tensor) -> Tensor:
    """log Σ exp over processes of their log-sum-exps [n], without gradient; −∞ stands for an empty sum."""
    if group_size() == 1:
        return local
    highest = local.clone()
    distributed.all_reduce(highest, distributed.ReduceOp.MAX)
    highest.clamp_(min=torch.finfo(highest.dtype).min)  # −∞ − −∞ would be NaN
    return highest + sum_over_processes((local - highest).exp()).log()


@contextmanager
def report_lost_process(work: str) -> Iterator[None]:
    """Raise a UserError instead of the library's error when another process that shares `work` ("training") has gone."""
    try:
        yield
    except RuntimeError as error:
        said = str(error)
        lost = isinstance(error, distributed.DistError) or any(word in said.lower() for word in LOST)
        if process_count() == 1 or not lost or is_lack_of_memory(error):
            raise
        raise UserError(
            f"a process of the {work} was lost (noticed by process {process_rank()} of {process_count()}: "
            f"{(said.splitlines() or [type(error).__name__])[0]}). Its own message stands above, if it left one. Give the same "
            f"command again: {work} goes on from what is saved."
        ) from error


def share_buffers(module: nn.Module) -> None:
    """The first process's buffers, such as batch normalisation's running statistics, for all processes, in place."""
    if group_size() > 1:
        for buffer in module.buffers():
            distributed.broadcast(buffer, 0)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.long, device=local.device) for _ in range(group_size())]
        distributed.all_gather(counts, torch.tensor([len(local)], device=local.device))
        lengths = [int(count) for count in counts]
        padded = local.new_zeros((max(lengths), *local.shape[1:]))
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in lengths]
        distributed.all_gather(parts, padded)
        start = sum(lengths[: group_rank()])
        ctx.own = slice(start, start + len(local))
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        own: Tensor = gradients[0][ctx.own] * group_size()
        return own
