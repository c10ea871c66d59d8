"""The GPU's benchmark at toy sizes on the CPU: that its parts run, fail visibly, and claim nothing without a GPU."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))


QUICK, SLOW = (
    ["product", "search"],
    ["nccl", "neighbours", "decoding", "batches", "loader", "embed", "determinism", "head", "steps"],
)


@pytest.mark.parametrize("parts", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_every_part_runs_at_toy_sizes(parts: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import gpu

    assert gpu.main(["--smoke", "--output", str(tmp_path), "--parts", *parts]) == 0
    table = capfd.readouterr().out.split("TOY SIZES, no measurement")[1]
    assert all(part in table for part in parts) and not any(word in table for word in ("failed", "left out", "ended"))
    verdicts = [line.rstrip() for line in table.splitlines() if line.rstrip().endswith(("pass │", "FAIL │"))]
    assert len(verdicts) == (2 if parts == QUICK else 4)  # product and search; exchange, neighbours and two digests
    assert all(line.endswith("pass │") for line in verdicts)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it would measure")
def test_without_a_gpu_it_says_so_and_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import gpu

    assert gpu.main(["--parts", "search"]) == 2
    said = capsys.readouterr()
    assert "measures a GPU, but torch runs on the CPU (" in said.err and "--smoke" in said.err and not said.out


def test_a_part_that_fails_has_a_row_and_the_others_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import gpu

    nowhere = ["--data", str(tmp_path / "none"), "--run", str(tmp_path / "run")]
    assert gpu.main(["--smoke", "--output", str(tmp_path / "out"), "--parts", "tiny", "product", *nowhere]) == 1
    rows = gpu.read_table(tmp_path / "out" / "rows.jsonl", 0)
    assert [(part, row.passed) for part, row in rows] == [("tiny", False), ("product", True)]
    assert "CalledProcessError" in rows[0][1].figure and capfd.readouterr().out.count("FAIL") == 1


def test_a_process_that_dies_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu

    monkeypatch.setattr(sys, "executable", "false")
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--parts", "product"]) == 1
    ((_, row),) = gpu.read_table(tmp_path / "rows.jsonl", 0)
    assert row.what == "failed" and row.figure == "exit status 1"


def test_rows_outlast_a_call_whose_time_is_over(tmp_path: Path) -> None:
    import gpu
    from gpu_row import Row

    rows = tmp_path / "rows.jsonl"
    gpu.append_row(rows, "search", Row("of an earlier call", "1 s"))
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--seconds", "0.2", "--parts", "steps", "product"]) == 0
    assert [row.what for _, row in gpu.read_table(rows, 0)] == ["of an earlier call", "toy ended", "left out"]


def test_waits_are_those_that_torch_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_steps import _count_waits

    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def step() -> None:
        for text in ("called a synchronizing CUDA operation", "this is deprecated", "called a synchronizing CUDA operation"):
            warnings.warn(text, UserWarning, stacklevel=1)

    assert _count_waits(step) == 2 and modes == ["warn", "default"]


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
    command = [sys.executable, "benchmarks/gpu.py", "--smoke", "--output", str(tmp_path), "--parts", "steps", "determinism"]
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
