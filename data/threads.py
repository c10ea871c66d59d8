"""Work on items ahead of the result that is asked for, by threads of this process or a device."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Launched = TypeVar("Launched")
Result = TypeVar("Result")


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result, None, None]:
    """Yield work(item) for every item, in order, by one thread or more.

    While a result is used, the next `threads` items are worked on, and no more are fetched, one at a time by the caller's thread.
    Most of the work should not need the GIL, as reading, decoding and products of matrices do not. An error of the work is raised
    in place of the item's result; an error of the iterator of items at once, and results under way are lost. After an error, or
    when the generator is closed, no more are begun; those that were are awaited.
    """
    with ThreadPoolExecutor(threads) as pool:
        begun = deque[Future[Result]]()
        try:
            for item in items:
                begun.append(pool.submit(work, item))
                if len(begun) > threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # the one that still waits for a thread


def overlap(
    launch: Callable[[Item], Launched], read: Callable[[Launched], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield read(launch(item)) for every item, in order; the next item is launched before the result of one is read.

    A GPU, which works through what is launched, then has work while the host reads a result and fetches another item.
    """
    return map(read, draw_ahead(map(launch, items), 1))


def draw_ahead(items: Iterable[Item], count: int) -> Iterator[Item]:
    """Yield every item, in order, each after the next `count` have been drawn from the iterator."""
    drawn = deque[Item]()
    for item in items:
        drawn.append(item)
        if len(drawn) > count:
            yield drawn.popleft()
    yield from drawn
