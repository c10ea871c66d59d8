"""The processes, device and precision of a training, through Lightning Fabric: alone, or as many as torchrun starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from data.errors import UserError
from data.process import process_count, processes_on_machine

PATIENCE = timedelta(hours=3)  # that processes wait for each other: the first one validates while the others wait
PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def launch_fabric(precision: str) -> Fabric:
    """Fabric on the GPUs where there are any, otherwise on the CPU; data parallel when torchrun started several processes."""
    ranks, on_this_machine = process_count(), processes_on_machine()
    fabric = Fabric(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        strategy=DDPStrategy(timeout=PATIENCE) if ranks > 1 else "auto",
        devices=on_this_machine if ranks > 1 else 1,
        num_nodes=max(1, ranks // on_this_machine),
        precision=PRECISIONS[precision],
    )
    fabric.launch()
    return fabric


@contextmanager
def report_lost_process(fabric: Fabric) -> Iterator[None]:
    """UserError instead of the library's own when another process of the training has gone."""
    try:
        yield
    except RuntimeError as error:
        message = str(error).lower()
        if fabric.world_size > 1 and any(
            word in message for word in ("connection", "peer", "timed out", "timeout", "nccl", "gloo")
        ):
            raise UserError(
                f"a process of the training was lost (noticed by process {fabric.global_rank} of {fabric.world_size}: "
                f"{str(error).splitlines()[0]}). Its own message stands above, if it left one. Give the same command again: "
                "training goes on from its last saved state."
            ) from error
        raise
