"""Which of several processes this one is, as torchrun sets it in the environment; alone it is the first of one."""

import os

MOST_WORKERS = 16  # chosen by itself; a recipe may ask for more


def process_rank() -> int:
    """This process's number, from 0."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """How many processes share the work, at least 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes_on_machine() -> int:
    """How many of them run on this machine, at least 1."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def process_rank_on_machine() -> int:
    """This process's number among those on this machine, from 0: which GPU is its own."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def usable_cores() -> int:
    """How many cores this process may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_workers(given: int | None) -> int:
    """How many worker processes read images: `given`, or without it this process's share of the cores, 1…MOST_WORKERS."""
    return given if given is not None else max(1, min(MOST_WORKERS, usable_cores() // processes_on_machine()))


def is_first_process() -> bool:
    """Whether this process reports and writes what is written once."""
    return process_rank() == 0


def runs(process: int) -> bool:
    """Whether a process of this machine runs; False where the system cannot be asked without harm."""
    if os.name == "nt":
        return False  # os.kill would end it
    try:
        os.kill(process, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def print_once(message: str) -> None:
    """Print a line, on the first process only."""
    if is_first_process():
        print(message, flush=True)
