"""What step 01 says in advance: of step 02, and of models that are still to come."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from image_copies.data.errors import UserError
from image_copies.models.inference.settings import HandmadeModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.run import Run, assign_training_roles, open_existing_run, open_run
from image_copies.pipeline.steps import train as step
from image_copies.pipeline.steps.definitions import TRAIN, run_step
from tests.runs import copy_run


def test_each_stage_learns_its_mixture_of_extra_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {f"data/{name}_images": name[0].upper() for name in ("training", "reference", "query")}
    folders |= {"more": "M", "run/queries/query_images": "S"}
    for folder, prefix in folders.items():
        (tmp_path / folder).mkdir(parents=True)
        for number in range(12):
            (tmp_path / folder / f"{prefix}{number:02d}.jpg").write_text(f"{prefix}{number}")
    stages = [{"classes": 4, "extra_classes": 3}, {"classes": 12, "extra_classes": 5}]
    model = {"descriptor": {"backbone": "test_efficientnet"}, "stages": stages}
    recipe = {"models": {"one": model}, "extra_classes": {"folders": [str(tmp_path / "more")]}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "run/queries/public_ground_truth.csv").write_text("query_id,reference_id\nS00,T00\n")
    given = list[str]()
    monkeypatch.setattr(Trainer, "train", lambda self: given.extend(self.classes.ids))
    run = open_run(tmp_path / "run", tmp_path / "recipe.yaml", tmp_path / "data")
    step.train(run, "one", assign_training_roles(run))
    assert [sum(name.startswith("M") for name in given[:classes]) for classes in (4, 12)] == [3, 5]


@pytest.mark.parametrize("model", [{"kind": "gabor"}, {"kind": "file", "file": "shipped", "background": True}])
@pytest.mark.parametrize("missing", [0, 1])
def test_too_few_images_for_the_ensembles_dimensions_are_said_before_training(
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: dict[str, Any],
    missing: int,
) -> None:
    monkeypatch.setattr(HandmadeModelSettings, "make", lambda *_: None)
    step._warn_once.cache_clear()
    roles = assign_training_roles(open_existing_run(small_run))
    there, held_out = len(roles.classes) + len(roles.overlays), len(roles.references) + len(roles.distractors)
    recipe = yaml.safe_load((small_run / "recipe.yaml").read_text())
    recipe |= {"models": {"one": model}, "ensemble": {"dimensions": [8, there + missing]}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    shutil.copy(small_run / "run.json", tmp_path)
    run = open_existing_run(tmp_path)
    step.train(run, "one", assign_training_roles(run))
    line = f"step 03 will need {there + 1} training images for as many dimensions (ensemble.dimensions), and here are {there} "
    assert (f"{line}beside the {held_out} held out: add 1 at least" in capsys.readouterr().out) == (
        missing and "background" not in model
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("descriptor: {backbone: test_efficientnet, weights: gone.pth}", r"^two: gone\.pth: no such weights file"),
        ("descriptor: {backbone: test_efficientnet, weights: gone}", r"^two: weights: 'gone'; expected none, pretrained"),
        ("descriptor: {backbone: test_efficientnet, weights: shipped#huge}", r"^two: .* joins byob2, lite0, gabor: name one"),
        ("kind: file, file: gone.safetensors", r"^two: gone\.safetensors: no such file\. `file` of the recipe names"),
        ("descriptor: {backbone: test_efficientnet, weights: OWN/models/one/stage-2.safetensors}", None),
        ("kind: file, file: OWN/models/one/stage-2.safetensors", None),
    ],
)
def test_a_later_models_missing_weights_are_missed_before_any_is_trained(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str | None
) -> None:
    folder, stages = tmp_path / "run", "" if "kind" in model else ", stages: [{image_size: 32}]"
    two = f"  two: {{{model.replace('OWN', str(folder))}{stages}}}\n"
    run = copy_run(small_run, folder, ("embedding:", f"{two}embedding:"))
    monkeypatch.setattr(Trainer, "train", lambda self: pytest.fail("a model was trained"))
    if message is None:
        step.check_models(run)
    else:
        with pytest.raises(UserError, match=message):
            step.train(run, "one", assign_training_roles(run))
    run.checkpoint("two").parent.mkdir()
    run.checkpoint("two").touch()
    step.check_models(run)  # has learnt already


def test_models_of_runs_of_their_own_are_those_of_one_run(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/gpu.md trains several at the same time: their folders are moved into the run of all; or `side_by_side` does."""
    recipe = yaml.safe_load((small_run / "recipe.yaml").read_text())
    network = {"descriptor": {"backbone": "test_efficientnet", "dimensions": 16}, "workers": 0}
    model = network | {"stages": [{"image_size": 32, "batch_size": 16, "epochs": 1}]}

    def open_with(folder: Path, *names: str, **more: bool) -> Run:
        shutil.copytree(small_run, folder, ignore=shutil.ignore_patterns("models"))
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe | more | {"models": dict.fromkeys(names, model)}))
        return open_existing_run(folder)

    expected, moved = open_with(tmp_path / "all", "one", "two"), open_with(tmp_path / "moved", "one", "two")
    run_step(expected, TRAIN)
    for name in ("one", "two"):
        alone = open_with(tmp_path / name, name)
        run_step(alone, TRAIN)
        shutil.move(alone.paths.model(name), moved.paths.model(name))
    before = [moved.checkpoint(name).stat().st_mtime_ns for name in ("one", "two")]
    run_step(moved, TRAIN)
    assert [moved.checkpoint(name).stat().st_mtime_ns for name in ("one", "two")] == before
    for name in ("one", "two"):
        assert moved.checkpoint(name).read_bytes() == expected.checkpoint(name).read_bytes()
    together = open_with(tmp_path / "together", "one", "two", side_by_side=True)
    monkeypatch.setattr(Trainer, "train_stage", lambda *_: pytest.fail("trained in this process"))
    run_step(together, TRAIN)
    for name in ("one", "two"):
        assert together.checkpoint(name).read_bytes() == expected.checkpoint(name).read_bytes()
    together.checkpoint("two").unlink()
    run_step(together, TRAIN, force=True)  # once each, and not in this process
    assert together.checkpoint("two").read_bytes() == expected.checkpoint("two").read_bytes()
