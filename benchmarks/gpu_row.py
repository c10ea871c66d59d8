"""A row of the table of benchmarks/gpu.py, and the time of repeated work."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from gpu_step import read_clock


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        what: What was measured.
        figure: The figure, with its unit.
        bar: The goal; empty where there is none.
        passed: Whether the goal was reached; None where there is none.
        of_bits: Whether the goal concerns results instead of speed, and so holds at any size.
    """

    what: str
    figure: str
    bar: str = ""
    passed: bool | None = None
    of_bits: bool = False


def measure_median(device: torch.device, work: Callable[[], object], repeats: int, warm_up: int = 3) -> float:
    """Return the median seconds of `repeats` calls, each until the device has finished."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        started = read_clock(device)
        work()
        seconds.append(read_clock(device) - started)
    return float(np.median(seconds))
