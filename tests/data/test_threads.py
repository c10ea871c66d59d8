import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, current_thread
from time import sleep

import pytest

from image_copies.data.threads import map_in_threads


def test_results_come_in_order_while_all_threads_work() -> None:
    together = Barrier(4, timeout=30)  # breaks unless four work at once
    assert list(map_in_threads(lambda item: (together.wait(), item)[1], range(8), 4)) == list(range(8))
    assert list(map_in_threads(lambda item: -item, [3], 4)) == [-3]
    assert list(map_in_threads(lambda item: item, [], 4)) == []


def test_no_more_than_the_threads_take_is_begun_ahead() -> None:
    fetched: list[int] = []

    def fetch() -> Iterator[int]:
        for item in range(30):
            fetched.append(item)
            yield item

    results = map_in_threads(lambda item: item, fetch(), 3)
    assert fetched == []
    for expected in range(20):
        assert next(results) == expected
        assert len(fetched) == expected + 4  # the one that is used, and three
    assert list(results) == list(range(20, 30))


def test_an_error_comes_in_its_place_and_ends_the_threads() -> None:
    threads = set()

    def work(item: int) -> int:
        threads.add(current_thread())
        if item == 2:
            raise ValueError("the third")
        return item

    results = map_in_threads(work, range(9), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        next(results)
    assert threads and not any(thread.is_alive() for thread in threads)


def test_closing_waits_for_what_has_begun_and_begins_nothing_more() -> None:
    begun, ended = list[int](), list[int]()

    def work(item: int) -> None:
        begun.append(item)
        if item:
            sleep(0.1)
        ended.append(item)

    results = map_in_threads(work, range(9), 2)
    next(results)
    results.close()
    assert sorted(begun) == sorted(ended) and max(begun) <= 2


INTERRUPTED = """
import os, signal, time
from image_copies.data.threads import map_in_threads

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process that was started in the background ignores it

def work(item):
    print("begun", item, flush=True)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)

list(map_in_threads(work, range(9), 1))
"""


def test_an_interrupt_begins_nothing_more() -> None:
    """One item more than there are threads is waiting when the user presses Ctrl-C; in a process without other tests."""
    top = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=top, capture_output=True, text=True)
    assert done.stdout == "begun 0\n" and "KeyboardInterrupt" in done.stderr and done.returncode != 0


def test_an_error_of_the_iterator_ends_the_threads() -> None:
    ended = list[int]()

    def fetch() -> Iterator[int]:
        yield 1
        raise ValueError("no second")

    def work(item: int) -> None:
        sleep(0.1)
        ended.append(item)

    with pytest.raises(ValueError, match="no second"):
        list(map_in_threads(work, fetch(), 2))
    assert ended == [1]
