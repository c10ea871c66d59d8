"""Batches side by side on a processor, whose cores one small network's layers cannot fill together."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_CONCURRENT = 4  # batches at once: each keeps its activations


def map_in_parallel(work: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """Yield work(item) of every item, in their order.

    On a CPU several run at once, each on its share of torch's threads, until the last result is taken; on a GPU, which queues
    its work itself, one after the other.
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
