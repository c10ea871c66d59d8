"""A row of the table of benchmarks/gpu.py, and the time of repeated work."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    what: str
    figure: str  # with its unit
    bar: str = ""  # the goal
    passed: bool | None = None  # whether it was reached; None where there is none
    of_bits: bool = False  # whether the goal concerns results instead of speed, and so holds at any size


def read_clock(device: torch.device) -> float:
    """Wait until the device has finished its work; return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure_busy_seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Return the seconds a call in which the GPU computes, as torch's profiler sees it; 0 on a CPU."""
    with torch.profiler.profile() as profiler:
        for _ in range(repeats):
            work()
        read_clock(device)
    return sum(float(event.self_device_time_total) for event in profiler.key_averages()) / 1e6 / repeats
