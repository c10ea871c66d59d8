"""What step 01 says in advance of step 02."""

import shutil
from pathlib import Path

import pytest

from pipeline.run.run import open_existing_run
from pipeline.run.training_roles import assign_training_roles
from pipeline.steps import train as step

WARNING = "  step 02 will need an NVIDIA GPU (embedding.decode_on: device), and here is the CPU (COPY_DETECTION_DEVICE=cpu)"


@pytest.mark.parametrize(("embedding", "warnings"), [("{workers: 0, decode_on: device}", 1), ("{workers: 0}", 0)])
def test_that_it_needs_a_gpu_is_said_once_for_all_models(
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    embedding: str,
    warnings: int,
) -> None:
    monkeypatch.setenv("COPY_DETECTION_DEVICE", "cpu")
    monkeypatch.setattr(step, "whiten_handmade", lambda *_: None)
    step._warn_once.cache_clear()
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    recipe = (folder / "recipe.yaml").read_text().replace("embedding: {workers: 0}", f"embedding: {embedding}")
    (folder / "recipe.yaml").write_text(recipe.replace("models:", "models:\n  gabor: {kind: gabor}\n  pixels: {kind: pixels}"))
    run = open_existing_run(folder)
    for name in ("gabor", "pixels"):
        step.train(run, name, assign_training_roles(run))
    assert capsys.readouterr().out.count(WARNING) == warnings
