"""Where the work runs and in which precision."""

from contextlib import AbstractContextManager, nullcontext

import torch


def best_device() -> torch.device:
    """The GPU where there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Mixed precision: "32" (none), "bf16" or "16"."""
    if precision == "32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16 if precision == "bf16" else torch.float16)
