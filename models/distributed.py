"""Collective operations of the training processes: gathered rows, sums, log-sum-exps. With one process, each is the identity."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn

from image_copies.data.errors import UserError
from image_copies.data.process import process_count, process_rank

from .device import is_lack_of_memory

LOST_PROCESS_PHRASES = (
    "connection",
    "peer",
    "timed out",
    "timeout",
    "nccl",
    "gloo",
)  # in NCCL's and gloo's errors about a lost process


def group_size() -> int:
    """Return the number of processes that train together; 1 before the process group is initialised."""
    joined = distributed.is_available() and distributed.is_initialized()
    return process_count() if joined else 1


def group_rank() -> int:
    """Return the rank of this process among them, from 0."""
    return process_rank() if group_size() > 1 else 0


def shard_rows(classes: int, rank: int, processes: int) -> range:
    """Return the consecutive classes that process `rank` of `processes` holds; the first processes may hold one more."""
    share, rest = divmod(classes, processes)
    start = rank * share + min(rank, rest)
    return range(start, start + share + (rank < rest))


def gather_rows(local: Tensor) -> Tensor:
    """Gather the rows of all processes in rank order: [n, …] → [Σ n, …]; n may differ between processes.

    The loss computed from the result is assumed to be the same on every process. Backward returns its gradient for this process's
    own rows, times the number of processes: averaging over processes, as data parallelism does, then yields the exact gradient.
    """
    return gather_together(local)[0]


def gather_together(*locals_: Tensor) -> tuple[Tensor, ...]:
    """Gather tensors [n, …] of as many rows each as `gather_rows` does; a GPU is waited for once, for the numbers of rows."""
    if group_size() == 1:
        return locals_
    lengths = _exchange_lengths(len(locals_[0]), locals_[0].device)
    return tuple(_Gather.apply(local, lengths) for local in locals_)  # type: ignore[no-untyped-call]  # torch's apply has no types


def sum_over_processes(local: Tensor) -> Tensor:
    """Sum a tensor of any shape over processes, in place and without gradient."""
    if group_size() > 1:
        distributed.all_reduce(local)
    return local


def log_sum_over_processes(local: Tensor) -> Tensor:
    """Combine the log-sum-exps [n] of all processes into one [n], without gradient; −∞ stands for an empty sum."""
    if group_size() == 1:
        return local
    highest = local.clone()
    distributed.all_reduce(highest, distributed.ReduceOp.MAX)
    highest.clamp_(min=torch.finfo(highest.dtype).min)  # −∞ − −∞ would be NaN
    return highest + sum_over_processes((local - highest).exp()).log()


@contextmanager
def report_lost_process(work: str) -> Iterator[None]:
    """Turn an error of the library about a lost process into a message for the user.

    Where NCCL's watchdog ends a process, nothing of Python runs: torchrun's message is all there is.

    Raises:
        UserError: when another process was lost in the block.
    """
    remedy = f"Run the same command again: {work} continues from the saved state."
    try:
        yield
    except RuntimeError as error:
        said = str(error)
        lost = isinstance(error, distributed.DistError) or any(
            word in said.lower() for word in LOST_PROCESS_PHRASES
        )
        if process_count() == 1 or not lost or is_lack_of_memory(error):
            raise
        raise UserError(
            f"a process of the {work} was lost (noticed by process {process_rank()} of {process_count()}: "
            f"{(said.splitlines() or [type(error).__name__])[0]}). Its own message is above, if it left one. {remedy}"
        ) from error


def share_buffers(module: nn.Module) -> None:
    """Broadcast rank 0's buffers, such as batch normalisation's running statistics, to all processes, in place."""
    if group_size() > 1:
        for buffer in module.buffers():
            distributed.broadcast(buffer, 0)


def _exchange_lengths(own: int, device: torch.device) -> list[int]:
    """Return how many rows each process has, in rank order."""
    counts = torch.empty(group_size(), dtype=torch.long, device=device)
    distributed.all_gather_into_tensor(counts, torch.full((1,), own, dtype=torch.long, device=device))
    lengths: list[int] = counts.tolist()
    return lengths


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, lengths: list[int]) -> Tensor:
        padded = local.new_zeros((max(lengths), *local.shape[1:]))
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in lengths]
        distributed.all_gather(parts, padded)
        start = sum(lengths[: group_rank()])
        ctx.own = slice(start, start + len(local))
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0][ctx.own] * group_size(), None
