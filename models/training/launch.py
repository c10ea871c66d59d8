"""Lightning Fabric set-up: processes (alone, or as many as torchrun starts), device and precision of a training."""

from datetime import timedelta
from typing import Literal

from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from image_copies.data.process import keep_freed_memory, process_count, processes_on_machine

from ..device import best_device, choose_precision

PROCESS_TIMEOUT = timedelta(hours=3)  # for collective operations: rank 0 validates while the others wait
PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "32": "32-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}


def launch_fabric(precision: str) -> Fabric:
    """Launch Fabric on this process's GPU, or on the CPU without one; data-parallel if torchrun started several processes.

    Raises:
        UserError: This machine runs more processes than it has GPUs.
    """
    ranks = process_count()
    on_this_machine = processes_on_machine()
    device = best_device()
    chosen = choose_precision(device, precision)
    if device.type == "cpu":
        keep_freed_memory()
    fabric = Fabric(
        accelerator=device.type,
        strategy=DDPStrategy(timeout=PROCESS_TIMEOUT) if ranks > 1 else "auto",
        devices=on_this_machine if ranks > 1 else 1,
        num_nodes=max(1, ranks // on_this_machine),
        precision=PRECISIONS[chosen],
    )
    fabric.launch()
    if chosen != precision:
        fabric.print(
            f"  this processor has no arithmetic in bfloat16: computes with precision {chosen} instead of {precision}"
        )
    return fabric
