"""choose_exponent.py in a run, and on a checkpoint alone."""

import json
import runpy
from pathlib import Path

import pytest
import torch

from tests.networks import save_small
from tests.pictures import write_images

MODULE = "image_copies.studies.multigrain.choose_exponent"
RECIPE = """
split: {validation: 0.2, overlay: 0.1}
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 16, train_pooling_exponent: false}
    objective: {kind: multigrain}
    sampling: {kind: repeated, copies: 3}
    stages: [{image_size: 32}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes are its 14 training images that are neither overlays nor for validation."""
    torch.manual_seed(0)
    where = tmp_path_factory.mktemp("run")
    write_images(where / "data" / "training_images", 20)
    (where / "run").mkdir()
    (where / "run" / "recipe.yaml").write_text(RECIPE)
    (where / "run" / "run.json").write_text(json.dumps({"data": str(where / "data")}))
    model = where / "run" / "models" / "one"
    save_small(model / "stage-1.safetensors")
    return where


def choose(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", [MODULE, "--workers", "0", *map(str, arguments)])
        runpy.run_module(MODULE, run_name="__main__")


def test_search_scores_exponents_on_images_of_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = run / "run" / "models" / "one" / "stage-1.safetensors"
    choose("--checkpoint", checkpoint, "--sizes", 32, 48, "--exponents", 2, 3, 7, "--images", 6)
    reported = capsys.readouterr().out
    for part in ("5 edited copies of each of 6 training images", "32 px", "48 px", "trained at 32 px with p 3.00"):
        assert part in reported
    assert [line.split("│")[1].strip() for line in reported.splitlines() if line.startswith("│")] == ["2", "3", "7"]
    assert reported.count(" *") == 2  # one mark a size
    assert "embedding: {image_size: 48, pooling_exponent: " in reported


def test_what_is_missing_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = run / "run" / "models" / "one" / "stage-1.safetensors"
    alone = tmp_path / "stage-1.safetensors"
    alone.write_bytes(checkpoint.read_bytes())
    (tmp_path / "none").mkdir()
    cases: list[tuple[Path, tuple[object, ...], str]] = [
        (alone, (), "is not part of a run; give the training images with --data"),
        (checkpoint, ("--data", tmp_path / "none"), "holds no image"),
        (checkpoint, ("--sizes", 8), "at least 16 pixels"),
        (checkpoint, ("--exponents", 0), "above 0"),
        (checkpoint, ("--images", 1), "of at least 2"),
        (tmp_path / "other.safetensors", (), "no such checkpoint"),
    ]
    for path, arguments, message in cases:
        with pytest.raises(SystemExit) as stopped:
            choose("--checkpoint", path, *arguments)
        assert stopped.value.code == 2 and message in capsys.readouterr().err
