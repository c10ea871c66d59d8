from collections.abc import Iterator
from threading import Barrier

import pytest
import torch

from image_copies.data.threads import overlap
from image_copies.models.inference.parallel import map_in_parallel

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_while_several_run_at_once() -> None:
    together = Barrier(2, timeout=20)  # broken where one runs after the other

    def work(item: int) -> tuple[int, int]:
        if item < 2:  # later ones may pair off so that an earlier one is left over
            together.wait()
        return item * item, torch.get_num_threads()

    assert list(map_in_parallel(work, range(10), CPU)) == [(item * item, 1) for item in range(10)]
    assert torch.get_num_threads() == 4


def test_a_gpu_is_given_one_after_the_other_the_next_before_a_result_is_read() -> None:
    assert list(map_in_parallel(lambda item: (item, torch.get_num_threads()), range(3), torch.device("cuda"))) == [
        (0, 4),
        (1, 4),
        (2, 4),
    ]
    done = list[str]()

    def launch(item: int) -> int:
        done.append(f"launch {item}")
        return 10 * item

    def read(result: int) -> int:
        done.append(f"read {result}")
        return result + 1

    assert list(overlap(launch, read, range(3))) == [1, 11, 21]
    assert done == ["launch 0", "launch 1", "read 0", "launch 2", "read 10", "read 20"]
    assert list(overlap(launch, read, [])) == []


def test_an_error_comes_through_and_the_threads_come_back() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise ValueError("the third")
        return item

    results = map_in_parallel(work, range(9), CPU)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        next(results)
    assert torch.get_num_threads() == 4


def test_what_was_left_unfinished_changes_no_threads_of_another() -> None:
    left = map_in_parallel(lambda item: item, range(99), CPU)
    next(left)
    counted = map_in_parallel(lambda _: torch.get_num_threads(), range(20), CPU)
    found = [next(counted)]
    del left  # it is collected
    assert [*found, *counted] == [1] * 20
    assert torch.get_num_threads() == 4
