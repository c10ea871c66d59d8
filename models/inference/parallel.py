"""Concurrent batches on a CPU, whose cores the layers of one small network cannot keep busy."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from image_copies.data.threads import map_in_threads

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_CONCURRENT = 16  # batches; each has its own activations in memory


def map_in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], device: torch.device
) -> Iterator[Result]:
    """Yield work(item) for every item, in order.

    On a CPU, as many items are processed concurrently as torch has threads, but at most MAX_CONCURRENT, each by one thread: the
    last bits of a convolution depend on the number of threads, and a vector must not depend on the number of cores. Until the
    generator is exhausted or closed, torch has one thread. On a GPU, which queues its work, items are processed one by one.
    """
    if device.type != "cpu":
        yield from map(work, items)
        return
    with use_one_thread() as threads:
        together = min(threads, MAX_CONCURRENT)
        if together == 1:
            yield from map(work, items)
            return
        yield from map_in_threads(work, items, together)


# a collection may close a block anywhere
_open_blocks, _threads_before, _changing = 0, 1, threading.RLock()


@contextmanager
def use_one_thread() -> Iterator[int]:
    """Give torch one thread as long as any such block is open, and yield how many it had before all of them.

    A generator that an error left unfinished ends when it is collected, perhaps while another one works: what that one computes
    must not depend on it.
    """
    global _open_blocks, _threads_before
    with _changing:
        _open_blocks += 1
        if _open_blocks == 1:
            _threads_before = torch.get_num_threads()
            torch.set_num_threads(1)
    try:
        yield _threads_before
    finally:
        with _changing:
            _open_blocks -= 1
            if not _open_blocks:
                torch.set_num_threads(_threads_before)
