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
