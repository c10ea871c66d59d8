import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from image_copies.data.locks import SESSION_VARIABLE
from image_copies.pipeline.run.recipe import Recipe
from image_copies.pipeline.run.run import Run, assign_training_roles
from image_copies.pipeline.run.step import make_product, read_manifest, report_stale
from image_copies.pipeline.steps.definitions import STEPS

CONTENT: dict[str, Any] = {"models": {"one": {"descriptor": {"backbone": "test_efficientnet"}, "stages": [{"image_size": 32}]}}}


def run_of(folder: Path, **changed: object) -> Run:
    return Run(folder, Recipe.model_validate(yaml.safe_load(yaml.safe_dump(CONTENT | changed))), folder)


@pytest.fixture
def done(tmp_path: Path) -> Run:
    """All steps done; each made one file, and read those of the step before."""
    run, before = run_of(tmp_path), None
    for step in STEPS:
        for product in step.products(run):
            output = tmp_path / f"{step.label(product)}.txt"
            stand_in = replace(
                product,
                outputs=[output],
                inputs=partial(dict, file=before, files=[before, None]),
                work=partial(output.write_text, "1"),  # type: ignore[arg-type]
                unfinished=[],
            )
            make_product(run, step, stand_in)
            before = output
    return run


def test_what_is_up_to_date_is_not_mentioned(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    report_stale(done, STEPS)
    for path in (done.folder / "manifests").iterdir():  # another version of the code, which records other things
        manifest = json.loads(path.read_text())
        manifest["code"] = "older"
        if path.stem == "03_ensemble":
            del manifest["parameters"]["ensemble"]["training_sample"]
            manifest["parameters"]["normalization"]["bygone"] = False
        path.write_text(json.dumps(manifest))
    report_stale(done, STEPS)
    (done.folder / "00_augment.txt").unlink()  # to make room: nothing says that it was another one
    report_stale(done, STEPS)
    report_stale(run_of(done.folder / "new"), STEPS)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"ensemble": {"dimensions": 64}}, "step 03_ensemble is stale (parameter ensemble changed)"),
        ({"embedding": {"flip": True}}, "step 02_embed is stale (one training: parameter flip changed and 3 more)"),
        ({"models": {"two": CONTENT["models"]["one"]}}, "step 03_ensemble is stale (parameter models changed)"),
    ],
)
def test_a_changed_recipe_is_told_by_every_later_step(
    done: Run, capsys: pytest.CaptureFixture[str], changed: dict[str, object], reported: str
) -> None:
    run, step = run_of(done.folder, **changed), reported.split()[1]
    names = [one.name for one in STEPS]
    capsys.readouterr()
    report_stale(run, STEPS[: names.index(step)])
    assert capsys.readouterr().out == ""
    for later in ("04_normalize", "05_submit", "06_score"):
        report_stale(run, STEPS[: names.index(later)])
        said = capsys.readouterr().out
        assert f"{reported}: its earlier results are used. Repeat it: python pipeline/{step}.py --run {run.folder}" in said
        assert said.count("\n") == 1


def test_a_step_whose_input_was_made_again_is_stale(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(read_manifest(done, "03_ensemble")["inputs"]["file"][0])
    source.write_text("another")
    capsys.readouterr()
    report_stale(done, STEPS[:4])
    assert "step 03_ensemble is stale (input file changed and 1 more)" in capsys.readouterr().out


@pytest.fixture
def made(tmp_path: Path) -> Run:
    """Steps 00 to 03 done on folders of files that are called images; nothing reads them."""
    run = replace(run_of(tmp_path / "run"), data=tmp_path / "data")
    sizes = {run.data / "training_images": 20, run.data / "reference_images": 3, run.data / "query_images": 3}
    for folder, count in (sizes | {run.paths.query_images: 3}).items():
        folder.mkdir(parents=True)
        for number in range(count):
            (folder / f"{folder.name[0]}{number}.jpg").write_bytes(b"picture")
    for step in STEPS[:4]:
        for product in step.products(run):
            output = tmp_path / f"{step.label(product)}.txt"
            work = partial(output.write_text, "1")
            make_product(run, step, replace(product, outputs=[output], inputs=product.images, work=work))  # type: ignore[arg-type]
    return run


@pytest.mark.parametrize(
    ("file", "content", "stale"),
    [
        ("query_images/q9.jpg", b"added", {"02_embed (one query: input images changed)"}),
        ("reference_images/r1.jpg", None, {"02_embed (one reference: input images changed)"}),
        ("query_images/q1.jpg", b"another", {"02_embed (one query: input images changed)"}),
        ("training_images/t1.jpg", b"longer than before", {"00_augment", "02_embed", "03_ensemble"}),
    ],
    ids=["added", "removed", "replaced", "training"],
)
def test_every_later_step_notices_that_a_folder_of_images_changed(
    made: Run, file: str, content: bytes | None, stale: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    report_stale(replace(made), STEPS)
    assert capsys.readouterr().out == ""
    path = made.data / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))  # an older file that takes its place
    report_stale(replace(made), STEPS)
    lines = capsys.readouterr().out.splitlines()
    for named in stale:
        step, _, why = named.partition(" ")
        assert any(line.startswith(f"step {step} is stale {why}") and f"pipeline/{step}.py" in line for line in lines), lines
    assert len(lines) == len(stale), "an image of the synthetic queries is no class of step 01"


def test_a_class_that_changed_is_one_of_step_01(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assign_training_roles(made).classes.paths[0].write_bytes(b"longer than before")
    capsys.readouterr()
    report_stale(replace(made), STEPS)
    assert "step 01_train is stale (one: input classes changed)" in capsys.readouterr().out


def test_folders_are_listed_once_within_run_all(
    made: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has just had each earlier step done."""
    (made.data / "query_images" / "q1.jpg").write_bytes(b"another")
    capsys.readouterr()
    monkeypatch.setenv(SESSION_VARIABLE, str(os.getpid()))
    report_stale(replace(made), STEPS)
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_gone_is_named(made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """To make room, perhaps: later steps work without it."""
    shutil.rmtree(made.data / "query_images")
    capsys.readouterr()
    report_stale(replace(made), STEPS)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("step 02_embed is stale") and "query_images" in line
