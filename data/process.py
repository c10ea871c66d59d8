"""Which of several processes this one is, as torchrun sets it in the environment; alone it is the first of one."""

import os


def process_rank() -> int:
    """This process's number, from 0."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """How many processes share the work, at least 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes_on_machine() -> int:
    """How many of them run on this machine, at least 1."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this process reports and writes what is written once."""
    return process_rank() == 0


def print_once(message: str) -> None:
    """Print a line, on the first process only."""
    if is_first_process():
        print(message, flush=True)
