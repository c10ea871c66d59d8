"""The GPU's benchmark at toy sizes on the CPU: that its parts run, fail visibly, and claim nothing without a GPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))


QUICK, SLOW = ["head", "loader", "search", "neighbours"], ["nccl", "steps", "embed", "determinism"]


@pytest.mark.parametrize("parts", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_every_part_runs_at_toy_sizes(parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    import gpu

    assert gpu.main(["--smoke", "--parts", *parts]) == 0
    table = capsys.readouterr().out.split("TOY SIZES, no measurement")[1]
    assert all(part in table for part in parts) and "failed" not in table
    verdicts = [line for line in table.splitlines() if "pass" in line or "FAIL" in line]
    assert len(verdicts) == (2 if parts == QUICK else 3)  # search and neighbours; exchange and two digests
    assert all("pass" in line for line in verdicts)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it would measure")
def test_without_a_gpu_it_says_so_and_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import gpu

    assert gpu.main(["--parts", "search"]) == 2
    said = capsys.readouterr()
    assert "measures a GPU, but torch runs on the CPU (" in said.err and "--smoke" in said.err and not said.out


def test_a_part_that_fails_has_a_row_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import gpu
    from gpu_parts import Row

    def broken(*_: object) -> Iterator[Row]:
        yield Row("first", "1 s")
        raise RuntimeError("no kernel image is available")

    monkeypatch.setitem(gpu.PARTS, "head", broken)
    monkeypatch.setitem(gpu.PARTS, "search", lambda *_: iter([Row("slow", "9 s", "at most 5 s", False)]))
    assert gpu.main(["--smoke", "--parts", "head", "search"]) == 1
    table = capsys.readouterr().out
    assert "no kernel image is available" in table and "9 s" in table and table.count("FAIL") == 1
