"""Processes: this one among several that torchrun started, the cores they may use, work shared out over cores."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from typing import TypeVar

DEVICE_VARIABLE = "COPY_DETECTION_DEVICE"  # environment variable: the device to use instead of the best one
MAX_DEFAULT_WORKERS = 16  # upper limit of the default; a recipe may ask for more
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # of glibc's malloc.h


def process_rank() -> int:
    """Return this process's global rank, from 0."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """Return the world size: how many processes share the work, at least 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes_on_machine() -> int:
    """Return the local world size: how many of the processes run on this machine, at least 1."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def process_rank_on_machine() -> int:
    """Return this process's local rank, from 0, which is also the index of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for the next arrays of this process; nothing with other C libraries.

    By default it returns large blocks to the system, which clears their pages again for the next: at 160 px a fifth of
    the processor time of a small network's training step in batches of 64, a third in batches of 256.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # musl's library has none
            library = ctypes.CDLL(None)
            library.mallopt(MMAP_MAX, 0)
            library.mallopt(TRIM_THRESHOLD, -1)
            library.mallopt(ARENA_MAX, usable_cores())  # each thread's would keep as much


def usable_cores() -> int:
    """Return how many CPU cores this process may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_workers(given: int | None) -> int:
    """Return this process's share of the data-loading workers of a machine, at least 1; none only if 0 are given.

    They are those given, or else one for each core, and at most MAX_DEFAULT_WORKERS of a process.
    """
    if given == 0:
        return 0
    if given is None:
        return max(1, min(MAX_DEFAULT_WORKERS, usable_cores() // processes_on_machine()))
    return max(1, given // processes_on_machine())


def is_first_process() -> bool:
    """Whether this is rank 0, which prints reports and writes shared files."""
    return process_rank() == 0


def is_running(process: int) -> bool:
    """Whether the process with this id is running on this machine; always False on Windows, where asking would end it."""
    if os.name == "nt":
        return False  # os.kill would end the process
    try:
        os.kill(process, 0)  # signal 0 only checks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def print_once(message: str) -> None:
    """Print a line on rank 0 only."""
    if is_first_process():
        print(message, flush=True)


Item = TypeVar("Item")
Result = TypeVar("Result")
FEW = 64  # items that are done before other processes have started and imported what the work needs


def map_on_cores(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None, chunk: int = 16
) -> Iterator[Result]:
    """Yield work(item) of every item, in their order; `work` must be picklable, and a process takes `chunk` items at once.

    Without a number of workers there is a process on each core, or for FEW items none but this one.
    """
    if workers is None:
        workers = 1 if len(items) <= FEW else usable_cores()
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        yield from pool.map(work, items, chunksize=chunk)


DRIVERS = {"nt": "nvcuda.dll", "posix": "libcuda.so.1"}  # NVIDIA's, by os.name


def has_gpu() -> bool:
    """Whether there is a GPU that torch would use; found out without torch."""
    named = os.environ.get(DEVICE_VARIABLE)
    if named:
        return named != "cpu"
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL(DRIVERS[os.name])
    except (OSError, KeyError):
        return False
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
