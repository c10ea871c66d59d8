"""The same seed gives the same submission, byte for byte, with any number of loader workers, killed or not.

On sixty little pictures in a few seconds; on the built-in sample, which takes two whole runs, with `-m slow`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import image_copies.models.training.trainer as trainer_module
from image_copies.data.procedural import write_pictures
from image_copies.models.training.trainer import Trainer

TOP = Path(__file__).parents[2]
RESULTS = ("submission.h5", "matches.csv", "scores.json")
LITTLE: dict[str, Any] = {
    "queries": {"count": 12, "copies": 6, "augmentation": {"intensity": 0.5, "extra": True}},
    "models": {
        "one": {
            "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
            "extra_edits": True,
            "stages": [
                {"classes": 12, "intensity": 0.3, "image_size": 32, "batch_size": 8, "epochs": 1, "iterations": 3},
                {"intensity": 0.6, "image_size": 32, "batch_size": 8, "epochs": 2, "iterations": 3},
            ],
        },
        "gabor": {"kind": "gabor", "dimensions": 16},
    },
    "embedding": {"flip": True},
    "ensemble": {"dimensions": [8, 16], "eigen_power": [0, -0.5]},
    "normalization": {"direction_neighbours": 10},
    "baselines": False,
}
STEPS = ["00_augment", "01_train", "02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score"]


def write_recipe(path: Path, content: dict[str, Any], workers: int) -> Path:
    """The recipe with this number of workers, wherever images are loaded."""
    models = {name: model if "kind" in model else model | {"workers": workers} for name, model in content["models"].items()}
    path.write_text(yaml.safe_dump(content | {"models": models, "embedding": content["embedding"] | {"workers": workers}}))
    return path


def read_results(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in RESULTS}


def test_workers_and_a_stop_leave_the_submission_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    data = tmp_path / "data"
    for folder, prefix, count in (("training_images", "T", 40), ("reference_images", "R", 10), ("query_images", "Q", 10)):
        list(write_pictures(data / folder, prefix, count, seed=1, workers=1))
    names = [sorted(path.stem for path in (data / folder).iterdir()) for folder in ("query_images", "reference_images")]
    truth = "".join(f"{query},{reference}\n" for query, reference in list(zip(*names, strict=True))[:5])
    (data / "public_ground_truth.csv").write_text("query_id,reference_id\n" + truth)

    def do(run: Path, workers: int, steps: list[str] = STEPS) -> None:
        recipe = write_recipe(tmp_path / f"workers-{workers}.yaml", LITTLE, workers)
        for step in steps:
            done = run_command(tmp_path, step, "--run", run, "--data", data, "--recipe", recipe)
            assert done.returncode == 0, done.stdout + done.stderr

    do(tmp_path / "whole", 0)
    monkeypatch.setattr(trainer_module, "SAVE_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(trainer_module, "SAVING_PAUSE", 0.0)
    monkeypatch.setattr(trainer_module, "STEPS_PER_CHECK", 1)
    learn, steps = Trainer.step, iter(range(5))  # into the second stage's first epoch

    def stopped(*arguments: Any) -> Any:
        if next(steps, None) is None:
            raise SystemExit(137)
        return learn(*arguments)

    do(tmp_path / "stopped", 2, STEPS[:1])
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", stopped)
        assert run_command(tmp_path, STEPS[1], "--run", tmp_path / "stopped").returncode == 137
    state = json.loads((tmp_path / "stopped/models/one/state.json").read_text())["progress"]
    assert (state["stage"], state["batch"]) == (1, 2)
    do(tmp_path / "stopped", 1)
    assert read_results(tmp_path / "stopped") == read_results(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the steps that it kills in /proc")
@pytest.mark.parametrize("share", [0.05, 1.0], ids=["a_twentieth", "whole"])
def test_the_sample_is_the_same_when_it_is_killed_and_goes_on_with_other_workers(tmp_path: Path, share: float) -> None:
    """README's first command twice: without workers, and with 2, killed while it trains, then with 1, killed while it embeds."""
    content = yaml.safe_load((TOP / "recipes" / "sample.yaml").read_text())
    recipes = [write_recipe(tmp_path / f"workers-{workers}.yaml", content, workers) for workers in range(3)]

    def command(run: str, workers: int) -> list[str]:
        begin = ["bash", str(TOP / "run_all.sh"), "--data", str(tmp_path / "runs/data/sample"), "--run", str(tmp_path / run)]
        return [*begin, "--recipe", str(recipes[workers])] + (["--scale", str(share)] if share < 1 else [])

    def finish(run: str, workers: int) -> None:
        done = subprocess.run(command(run, workers), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "ceiling" not in done.stdout, "this machine is too slow or too busy for this test"

    def kill_when_there_is(path: Path, run: str, workers: int) -> None:
        started = subprocess.Popen(
            command(run, workers), cwd=tmp_path, env=environment, start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not path.exists():
            assert started.poll() is None, f"ended before there was {path}"
            time.sleep(0.02)
        os.killpg(started.pid, signal.SIGKILL)  # run_all.sh
        for step in steps_in(tmp_path / run):
            with suppress(ProcessLookupError):
                os.kill(step, signal.SIGKILL)
        started.wait()

    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(TOP)}
    draw = [sys.executable, str(TOP / "pipeline/make_data.py"), "--output", "runs/data/sample"]
    subprocess.run(draw, cwd=tmp_path, env=environment, check=True)
    finish("whole", 0)
    kill_when_there_is(tmp_path / "killed/models/efficientnet/state.json", "killed", 2)
    kill_when_there_is(tmp_path / "killed/embeddings/nfnet", "killed", 1)
    finish("killed", 2)
    assert read_results(tmp_path / "killed") == read_results(tmp_path / "whole")


def steps_in(run: Path) -> list[int]:
    """The processes whose command line names this run folder, other than this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:  # ended meanwhile
            continue
        if os.fsencode(run) in line and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
