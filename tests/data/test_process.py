"""Work on other processes and threads: how many, in which order, and what ends them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, current_thread
from time import sleep

import pytest

from image_copies.data.process import FEW, choose_workers, is_first_process, map_on_cores, print_once, process_count, process_rank
from image_copies.data.threads import map_in_threads


def test_only_the_first_of_several_processes_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (process_rank(), process_count(), is_first_process()) == (0, 1, True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        print_once(f"process {process_rank()} of {process_count()}")
    assert capsys.readouterr().out == "process 0 of 2\n"


@pytest.mark.parametrize(
    ("cores", "processes", "unsaid", "of_40"), [(2, 1, 2, 40), (1, 1, 1, 40), (64, 1, 16, 40), (64, 8, 8, 5), (4, 80, 1, 1)]
)
def test_workers_are_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, cores: int, processes: int, unsaid: int, of_40: int
) -> None:
    """Eight processes with `workers: 16` were 128 loaders."""
    monkeypatch.setattr("image_copies.data.process.usable_cores", lambda: cores)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert (choose_workers(None), choose_workers(40), choose_workers(0)) == (unsaid, of_40, 0)


def process_of(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.parametrize(
    ("items", "workers", "elsewhere"),
    [(FEW, None, False), (FEW + 1, None, True), (3, 2, True), (FEW + 1, 1, False)],
)
def test_only_many_items_are_worth_other_processes(
    monkeypatch: pytest.MonkeyPatch, items: int, workers: int | None, elsewhere: bool
) -> None:
    monkeypatch.setattr("image_copies.data.process.usable_cores", lambda: 2)
    done = list(map_on_cores(process_of, range(items), workers, chunk=8))
    assert [number for number, _ in done] == list(range(items))
    assert (os.getpid() not in {process for _, process in done}) == elsewhere


def test_results_come_in_order_and_no_more_than_the_threads_take_is_begun_ahead() -> None:
    together = Barrier(4, timeout=30)  # breaks unless four work at once
    assert list(map_in_threads(lambda item: (together.wait(), item)[1], range(8), 4)) == list(range(8))
    assert list(map_in_threads(lambda item: -item, [3], 4)) == [-3]
    assert list(map_in_threads(lambda item: item, [], 4)) == []
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
