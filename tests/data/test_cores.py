import os

import pytest

from image_copies.data.process import FEW, map_on_cores


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
