"""The same seed gives the same submission, byte for byte, with any number of loader workers, killed or not."""

import json
import subprocess
from collections.abc import Callable
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
