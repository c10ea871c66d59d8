import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.run.recipe import Recipe
from pipeline.run.stage import Run, read_manifest, run_step
from pipeline.run.staleness import step_parameters, tell_stale

CONTENT: dict[str, Any] = {"models": {"one": {"descriptor": {"backbone": "test_efficientnet"}, "stages": [{"image_size": 32}]}}}


def run_of(folder: Path, **changed: object) -> Run:
    return Run(folder, Recipe.model_validate(yaml.safe_load(yaml.safe_dump(CONTENT | changed))), folder)


@pytest.fixture
def done(tmp_path: Path) -> Run:
    """All steps done; each made one file, and read those of the step before."""
    run, before = run_of(tmp_path), None
    for label, parameters in step_parameters(run.recipe).items():
        step, _, name = label.partition(" ")
        output = tmp_path / f"{label}.txt"
        run_step(
            run,
            step,
            name=name or None,
            outputs=[output],
            inputs={"file": before, "files": [before, None]},
            parameters=parameters,
            work=lambda output=output: output.write_text("1"),  # type: ignore[misc]
        )
        before = output
    return run


def test_what_is_up_to_date_is_not_mentioned(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    tell_stale(done, "06_score")
    for path in (done.folder / "manifests").iterdir():  # another version of the code, which records other things
        manifest = json.loads(path.read_text())
        manifest["code"] = "older"
        if path.stem == "03_ensemble":
            del manifest["parameters"]["models"]
            manifest["parameters"]["bygone"] = 1
        path.write_text(json.dumps(manifest))
    tell_stale(done, "06_score")
    (done.folder / "00_augment.txt").unlink()  # to make room: nothing says that it was another one
    tell_stale(done, "06_score")
    tell_stale(run_of(done.folder / "new"), "06_score")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ensemble": {"dimensions": 64}}, "step 03_ensemble is stale (parameter ensemble changed)"),
        ({"embedding": {"flip": True}}, "step 02_embed is stale (one training: parameter flip changed and 3 more)"),
        ({"models": {"two": CONTENT["models"]["one"]}}, "step 03_ensemble is stale (parameter models changed)"),
    ],
)
def test_a_changed_recipe_is_told_by_every_later_step(
    done: Run, capsys: pytest.CaptureFixture[str], changed: dict[str, object], told: str
) -> None:
    run, step = run_of(done.folder, **changed), told.split()[1]
    capsys.readouterr()
    tell_stale(run, step)
    assert capsys.readouterr().out == ""
    for later in ("04_normalize", "05_submit", "06_score"):
        tell_stale(run, later)
        said = capsys.readouterr().out
        assert f"{told}: what it made before is used. Do it again: python pipeline/{step}.py --run {run.folder}" in said
        assert said.count("\n") == 1


def test_a_step_whose_input_was_made_again_is_stale(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(read_manifest(done, "03_ensemble")["inputs"]["file"][0])
    source.write_text("another")
    capsys.readouterr()
    tell_stale(done, "04_normalize")
    assert "step 03_ensemble is stale (input file changed and 1 more)" in capsys.readouterr().out
