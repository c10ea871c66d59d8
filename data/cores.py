"""Independent pieces of work shared out over the cores, in processes of their own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from image_copies.data.process import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
FEW = 64  # items that are done before other processes have started and imported what the work needs


def map_on_cores(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None, chunk: int = 16
) -> Iterator[Result]:
    """Yield work(item) of every item, in their order.

    Args:
        work: A function that can be pickled.
        items: What it is called with.
        workers: Processes, at least 1; None for one on each core, or for FEW items none but this one.
        chunk: Items that a process takes at once.
    """
    if workers is None:
        workers = 1 if len(items) <= FEW else usable_cores()
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        yield from pool.map(work, items, chunksize=chunk)
