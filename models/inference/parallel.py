"""Concurrent batches on a CPU, whose cores the layers of one small network cannot keep busy."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_CONCURRENT = 4  # batches; each has its own activations in memory


def map_in_parallel(work: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """Yield work(item) for every item, in order.

    On a CPU, up to MAX_CONCURRENT items are processed concurrently, each with its share of torch's threads; until the generator
    is exhausted, torch's number of threads is reduced. On a GPU, which queues its work, items are processed one after the other.
    """
    threads = torch.get_num_threads()
    together = min(threads, MAX_CONCURRENT) if device.type == "cpu" else 1
    if together == 1:
        yield from map(work, items)
        return
    torch.set_num_threads(threads // together)
    try:
        with ThreadPoolExecutor(together) as pool:
            waiting = deque[Future[Result]]()
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > together:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(threads)
