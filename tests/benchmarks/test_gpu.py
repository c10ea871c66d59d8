"""The GPU's benchmark at toy sizes on the CPU: that its parts run, fail visibly, and claim nothing without a GPU."""

import os
import subprocess
import sys
import warnings
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
    verdicts = [line.rstrip() for line in table.splitlines() if line.rstrip().endswith(("pass │", "FAIL │"))]
    assert len(verdicts) == (2 if parts == QUICK else 3)  # search and neighbours; exchange and two digests
    assert all(line.endswith("pass │") for line in verdicts)


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
    from gpu_row import Row

    def broken(*_: object) -> Iterator[Row]:
        yield Row("first", "1 s")
        raise RuntimeError("no kernel image is available")

    monkeypatch.setitem(gpu.PARTS, "head", broken)
    monkeypatch.setitem(gpu.PARTS, "search", lambda *_: iter([Row("slow", "9 s", "at most 5 s", False)]))
    assert gpu.main(["--smoke", "--parts", "head", "search"]) == 1
    table = capsys.readouterr().out
    assert "no kernel image is available" in table and "9 s" in table and table.count("FAIL") == 1


def test_waits_are_those_that_torch_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_steps import _count_waits

    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def step() -> None:
        for text in ("called a synchronizing CUDA operation", "this is deprecated", "called a synchronizing CUDA operation"):
            warnings.warn(text, UserWarning, stacklevel=1)

    assert _count_waits(step) == 2 and modes == ["warn", "default"]


def test_a_part_that_takes_long_leaves_models_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_steps
    from gpu_sizes import SMOKE

    monkeypatch.setattr(gpu_steps, "MAX_SECONDS", -1)
    (row,) = gpu_steps.measure_steps(torch.device("cpu"), SMOKE)
    assert row.what == "toy" and row.figure.startswith("left out")


@pytest.mark.slow
def test_it_runs_where_only_torch_timm_and_few_wheels_are(tmp_path: Path) -> None:
    """A bare machine has none of these; docs/gpu.md lists what it needs."""
    absent = ["tensorboard", "matplotlib", "imagehash", "onnx", "onnxruntime", "fastapi", "ray", "boto3", "pi_heif", "pylibjxl"]
    (tmp_path / "sitecustomize.py").write_text(
        f"""
import sys
from importlib.machinery import PathFinder

class Bare:
    find_distributions, invalidate_caches = PathFinder.find_distributions, PathFinder.invalidate_caches

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.split(".")[0] in {absent} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""
    )
    top = Path(__file__).parents[2]
    command = [sys.executable, "benchmarks/gpu.py", "--smoke", "--parts", "steps", "determinism"]
    where = os.environ | {"PYTHONPATH": f"{tmp_path}:{top}"}
    done = subprocess.run(command, cwd=top, env=where, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.count("pass") == 2, done.stderr[-2000:]


def test_a_machine_without_the_decoder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_decoding

    def lacking(files: list[torch.Tensor]) -> list[torch.Tensor]:
        raise RuntimeError("decode_jpegs_cuda: torchvision not compiled with nvJPEG support\nmore")

    assert "squares differ by 0." in gpu_decoding.compare_decoders(torch.device("cpu"), 64, 4, 2, 0)
    monkeypatch.setattr(gpu_decoding, "find_decoder", lambda device: lacking)
    said = gpu_decoding.compare_decoders(torch.device("cpu"), 64, 4, 2, 0)
    assert "this one does not: decode_jpegs_cuda: torchvision not compiled with nvJPEG support. Set" in said
