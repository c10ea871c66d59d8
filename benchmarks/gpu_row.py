"""A row of the table of benchmarks/gpu.py, and the time of repeated work, measured without waiting for the device in between."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

Mark = torch.cuda.Event | float  # a moment in a device's work


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


def mark(device: torch.device) -> Mark:
    """Mark a moment in the device's work; nothing waits for it."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_between(first: Mark, last: Mark) -> float:
    """Return the seconds between two marks, once the device has reached the last one."""
    if isinstance(first, float) or isinstance(last, float):
        return float(last) - float(first)  # type: ignore[arg-type]  # both are, on a CPU
    last.synchronize()
    return float(first.elapsed_time(last)) / 1e3


def read_clock(device: torch.device) -> float:
    """Wait until the device has finished its work; return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measure_median(device: torch.device, work: Callable[[], object], repeats: int, warm_up: int = 3) -> float:
    """Return the median seconds of `repeats` calls in succession, each from where the device has finished the one before."""
    for _ in range(warm_up):
        work()
    marks = [mark(device)]
    for _ in range(repeats):
        work()
        marks.append(mark(device))
    return float(np.median([seconds_between(first, last) for first, last in pairwise(marks)]))


def measure_busy_seconds(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Return the seconds a call in which the device computes, as torch's profiler sees it; on a CPU those of its operations."""
    on_gpu = device.type == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity]) as profiler:
        for _ in range(repeats):
            work()
        read_clock(device)
    counted = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    return sum(float(getattr(event, counted)) for event in profiler.key_averages()) / 1e6 / repeats
