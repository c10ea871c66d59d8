"""The GPU's benchmark at toy sizes on the CPU: that its parts run, fail visibly, and claim nothing without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu
import gpu_set
import pytest
import torch
from gpu_sizes import FULL
from gpu_steps import Row

from tests.pictures import write_images


@pytest.mark.slow
def test_every_part_runs_at_toy_sizes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = ["ways", "losses", "steps", "host", "determinism"]
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--parts", *parts]) == 0
    printed = capfd.readouterr().out
    assert all(f"{part}: " in printed for part in parts)
    assert "failed" not in printed and "left out" not in printed
    assert printed.count("pass\n") >= 4  # losses of each model, two digests


def test_saving_is_measured_in_the_process_that_is_asked_for_the_item(tmp_path: Path) -> None:
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--items", "saving:v2s-160"]) == 0
    rows = gpu.read_table(tmp_path / "rows.jsonl", 0)
    assert [row.what for _, row in rows] == [f"v2s-160, the {which} state" for which in ("first", "second")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it would measure")
def test_without_a_gpu_it_says_so_and_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--parts", "steps"]) == 2
    said = capsys.readouterr()
    assert "measures a GPU, but torch runs on the CPU (" in said.err and "--smoke" in said.err and not said.out


def test_a_part_that_fails_has_a_row_and_the_others_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nowhere = ["--data", str(tmp_path / "none"), "--run", str(tmp_path / "run")]
    assert gpu.main(["--smoke", "--output", str(tmp_path / "out"), "--parts", "drip", "losses:v2s", *nowhere]) == 1
    rows = gpu.read_table(tmp_path / "out" / "rows.jsonl", 0)
    assert [(part, row.passed) for part, row in rows] == [("drip", False), ("losses", True)]
    assert "CalledProcessError" in rows[0][1].figure and capfd.readouterr().out.count("FAIL") == 1


def test_a_process_that_dies_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--parts", "determinism"]) == 1
    ((_, row),) = gpu.read_table(tmp_path / "rows.jsonl", 0)
    assert row.what == "failed" and row.figure == "exit status 1"


@pytest.mark.slow
def test_behind_an_item_at_which_a_process_dies_the_others_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = tmp_path / "sitecustomize.py"  # the first process of the three that this starts dies at its second item
    hidden.write_text(
        "import os, sys\n"
        "if 'losses:v2s-160' in sys.argv and 'determinism:' in sys.argv:\n"
        "    import tempfile\n"
        "    tempfile.TemporaryDirectory = lambda *_: os._exit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--parts", "losses:v2s", "determinism", "losses:b5"]) == 1
    rows = [(part, row.what) for part, row in gpu.read_table(tmp_path / "rows.jsonl", 0)]
    assert [part for part, _ in rows] == ["losses", "determinism", "losses"] and rows[1][1] == "failed"


def test_items_are_asked_for_by_how_they_begin(tmp_path: Path) -> None:
    assert gpu.list_items(["steps:v2s", "losses"], FULL) == [
        ("steps", "v2s-160"),
        ("steps", "v2s-224"),
        ("losses", "v2s-160"),
        ("losses", "b5-256d-large"),
    ]
    with pytest.raises(ValueError, match=r"there is no 'steps:v3'.*items: "):
        gpu.list_items(["steps:v3"], FULL)


@pytest.mark.slow
def test_drip_training_goes_on_from_what_came_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for part, count in (("training_images", 40), ("reference_images", 3), ("query_images", 3)):
        write_images(tmp_path / "set" / part, count, part[0].upper())
    packed, recipe = tmp_path / "set.tar", tmp_path / "recipe.yaml"
    assert gpu_set.main([str(tmp_path / "set"), "--output", str(packed), "--pixels", "48"]) == 0
    stage = "{image_size: 32, batch_size: 8, epochs: 1}"  # at whose end the state is saved, however long it takes
    recipe.write_text(
        "queries: {count: 8, copies: 4}\nmodels:\n  toy:\n    descriptor: {backbone: test_efficientnet, dimensions: 16}\n"
        f"    workers: 0\n    stages: [{', '.join([stage] * 1000)}]\n"
    )

    def count_steps(name: str, *further: str) -> int:
        run = tmp_path / f"run-{name}"
        options = ["--data", str(packed), "--run", str(run), "--recipe", str(recipe), "--limit", "50"]
        assert gpu.main(["--smoke", "--parts", "drip", "--output", str(tmp_path / name), *options, *further]) == 0
        return int(json.loads((run / "models" / "toy" / "state.json").read_text())["progress"]["step"])

    first = count_steps("first")
    assert (tmp_path / "first" / "state.tar.0").is_file() and "killed after 50 s" in capfd.readouterr().out
    assert count_steps("second", "--carried", str(tmp_path / "first")) > first > 5
    assert {"done.txt", "rows.jsonl", "state.tar.0", "toy.csv"} <= {path.name for path in (tmp_path / "second").iterdir()}


def test_rows_outlast_a_call_whose_time_is_over(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    gpu.append_row(rows, "search", Row("of an earlier call", "1 s"))
    assert gpu.main(["--smoke", "--output", str(tmp_path), "--seconds", "0.2", "--parts", "steps"]) == 0
    found = [row.what for _, row in gpu.read_table(rows, 0)]
    assert found == ["of an earlier call", "v2s-160 left out", "b5-256d-large left out"]


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
