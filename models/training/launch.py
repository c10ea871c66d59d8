"""The processes, device and precision of a training, through Lightning Fabric: alone, or as many as torchrun starts."""

from datetime import timedelta
from typing import Literal

from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from data.process import process_count, processes_on_machine
from models.device import best_device

PATIENCE = timedelta(hours=3)  # that processes wait for each other: the first one validates while the others wait
PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def launch_fabric(precision: str) -> Fabric:
    """Fabric on this process's GPU, or on the CPU without one; data parallel when torchrun started several processes.

    Raises:
        UserError: More processes than GPUs.
    """
    ranks, on_this_machine = process_count(), processes_on_machine()
    fabric = Fabric(
        accelerator=best_device().type,
        strategy=DDPStrategy(timeout=PATIENCE) if ranks > 1 else "auto",
        devices=on_this_machine if ranks > 1 else 1,
        num_nodes=max(1, ranks // on_this_machine),
        precision=PRECISIONS[precision],
    )
    fabric.launch()
    return fabric
