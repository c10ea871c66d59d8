"""A step: when it is up to date, what its manifest records, and what is said where it is stale."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import yaml

from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.data.images import ImageSet
from image_copies.data.locks import SESSION_VARIABLE
from image_copies.data.settings import Settings
from image_copies.pipeline.run import step as step_module
from image_copies.pipeline.run.recipe import Recipe, read_recipe
from image_copies.pipeline.run.run import Run, assign_training_roles
from image_copies.pipeline.run.step import (
    Product,
    Step,
    code_version,
    describe_state,
    find_changes,
    fingerprint,
    fingerprint_images,
    make_product,
    read_manifest,
    report_stale,
    write_manifest,
)
from image_copies.pipeline.steps.definitions import STEPS

STEP = Step("03_ensemble", lambda run: [])


def make(run: Run, work: Callable[[], None], parameters: object = 1, source: Path | None = None, force: bool = False) -> None:
    product = Product(
        inputs=lambda: {"source": source}, outputs=[run.folder / "out.txt"], parameters={"k": parameters}, work=work
    )
    make_product(run, STEP, product, force)


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, run: Run) -> None:
        self.output, self.calls = run.folder / "out.txt", 0

    def __call__(self) -> None:
        self.calls += 1
        self.output.write_text("done")


def test_an_up_to_date_step_is_not_done_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    work = Counted(run)
    make(run, work)
    make(run, work)
    assert work.calls == 1 and "up to date" in capsys.readouterr().out
    make(run, work, force=True)
    assert work.calls == 2


def test_a_stale_step_says_what_changed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work, source = Counted(run), tmp_path / "source.txt"
    source.write_text("1")
    make(run, work, source=source)
    source.write_text("22")
    make(run, work, source=source)
    assert "input source changed" in capsys.readouterr().out
    make(run, work, parameters=2, source=source)
    assert "parameter k changed" in capsys.readouterr().out
    work.output.unlink()
    make(run, work, parameters=2, source=source)
    assert "out.txt is gone" in capsys.readouterr().out
    assert work.calls == 4


def test_a_failed_step_is_done_again_and_one_that_writes_nothing_is_an_error(run: Run) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        make(run, fail)
    with pytest.raises(RuntimeError, match=r"03_ensemble did not write .*out.txt"):
        make(run, lambda: None)
    work = Counted(run)
    make(run, work)
    assert work.calls == 1


def test_force_removes_unfinished_work_first(run: Run) -> None:
    started, work = run.folder / "started", Counted(run)
    product = Product(inputs=dict, outputs=[work.output], parameters={}, work=work, unfinished=[started])
    make_product(run, STEP, product)
    started.mkdir()
    make_product(run, STEP, product)
    assert started.is_dir()
    make_product(run, STEP, product, force=True)
    assert not started.exists()


def test_a_step_is_not_done_while_another_process_works_in_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Counted(run)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        monkeypatch.setenv(SESSION_VARIABLE, str(other.pid))
        make(run, work)
        monkeypatch.delenv(SESSION_VARIABLE)
        make(run, work)  # what is up to date harms nobody
        with pytest.raises(UserError, match=rf"mine is in use \(03_ensemble, process {other.pid}"):
            make(run, work, parameters=2)
        other.communicate(b"\n")
    assert work.calls == 1
    make(run, work, parameters=2)
    assert work.calls == 2


@pytest.mark.parametrize("left", ["", "do"])
def test_an_output_torn_by_a_power_cut_is_made_again(run: Run, capsys: pytest.CaptureFixture[str], left: str) -> None:
    work = Counted(run)
    make(run, work)
    work.output.write_text(left)
    make(run, work)
    assert work.calls == 2 and "out.txt is incomplete" in capsys.readouterr().out and work.output.read_text() == "done"


@pytest.mark.parametrize("jump", [-20, 20])
def test_a_clock_that_jumps_changes_nothing(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """Files from the future or the past are up to date, and what is made again is so for its size or another time."""
    work, source, year = Counted(run), tmp_path / "source.txt", 365 * 86_400
    source.write_text("1")
    now = time.time()
    os.utime(source, (now + jump * year,) * 2)
    make(run, work, source=source)
    for path in (run.folder, *run.folder.rglob("*")):
        os.utime(path, (now - jump * year,) * 2)
    monkeypatch.setattr(time, "time", lambda: now - jump * year)
    make(run, work, source=source)
    assert work.calls == 1 and "up to date" in capsys.readouterr().out
    os.utime(source, (now, now))
    make(run, work, source=source)
    assert work.calls == 2 and "input source changed" in capsys.readouterr().out


def test_no_budget_follows_the_clock() -> None:
    """What lasts is measured with clocks that only go forward."""
    rooms = [
        Path(__file__).parents[3] / room for room in ("data", "augmentations", "models", "submissions", "matching", "pipeline")
    ]
    assert not [path for room in rooms for path in room.rglob("*.py") if "time.time(" in path.read_text(encoding="utf-8")]


def test_fingerprints_follow_the_images(tmp_path: Path) -> None:
    """Of a step's inputs their sizes and times; of a run's data, as scores record it, their content wherever it lies."""
    paths = [tmp_path / folder / "a.jpg" for folder in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(b"123")
    one, other = (ImageSet(["a"], [path]) for path in paths)
    before = fingerprint(one)
    assert fingerprint_images(one) == fingerprint_images(other) and digest_file(paths[0]) == digest_file(paths[1])
    paths[0].write_bytes(b"1234")
    assert fingerprint(replace(one)) != before and fingerprint(tmp_path / "none") is None
    assert fingerprint_images(one) != fingerprint_images(other) and digest_file(paths[0]) != digest_file(paths[1])


class Stage(Settings):
    epochs: int
    turned: bool = False


class Model(Settings):
    stages: tuple[Stage, ...]


@pytest.mark.parametrize(
    ("before", "now", "changes"),
    [
        ({"epochs": 2}, Stage(epochs=2), []),  # without the key of today
        ({"epochs": 2}, Stage(epochs=2, turned=True), ["parameter model changed"]),
        ({"epochs": 3, "turned": False}, Stage(epochs=2), ["parameter model changed"]),
        (
            {"epochs": 2, "gone": 0.5},
            Stage(epochs=2),
            [
                "parameter model changed (recorded by another version, whose stages.0.gone is not valid in this one: "
                "Extra inputs are not permitted)"
            ],
        ),
    ],
)
def test_what_was_recorded_is_read_as_todays_settings(before: dict[str, object], now: Stage, changes: list[str]) -> None:
    """A key that recipes have got since makes nothing stale while it has its default."""
    recorded = {"inputs": {}, "parameters": {"model": {"stages": [before]}, "seed": 1}}
    assert find_changes(recorded, describe_state({}, {"model": Model(stages=(now,)), "seed": 1}), []) == changes


def test_settings_may_be_all_parameters() -> None:
    recorded = {"inputs": {}, "parameters": {"epochs": 2}}
    assert find_changes(recorded, describe_state({}, Stage(epochs=2)), []) == []
    assert find_changes(recorded, describe_state({}, Stage(epochs=3)), []) == ["parameter epochs changed"]
    (change,) = find_changes({"inputs": {}, "parameters": {"epochs": "x"}}, describe_state({}, Stage(epochs=3)), [])
    assert change.startswith("parameters changed (recorded by another version, whose epochs is not valid")


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_the_recipes_record_is_what_they_read(path: Path, tmp_path: Path) -> None:
    """No rule of the settings refuses what all their values, also those that have no effect, were recorded as."""
    run = Run(tmp_path, read_recipe(path), tmp_path)
    for step in STEPS:
        for product in step.products(run):
            state = describe_state({}, product.parameters)
            write_manifest(run, "label", state)
            assert find_changes(read_manifest(run, "label"), state, []) == []


def test_a_run_that_was_moved_or_is_named_by_another_path_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--run runs/mine` after `--run $PWD/runs/mine` embedded everything again."""
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run/vectors.h5").write_text("vectors")
    made = describe_state({"vectors": [Path("run/vectors.h5")]}, {})
    assert find_changes(made, describe_state({"vectors": [tmp_path / "run" / "vectors.h5"]}, {}), []) == []
    Path("run").rename("moved")
    assert find_changes(made, describe_state({"vectors": [Path("moved/vectors.h5")]}, {}), []) == []
    Path("moved/vectors.h5").write_text("others, of another size")
    assert find_changes(made, describe_state({"vectors": [Path("moved/vectors.h5")]}, {}), []) == ["input vectors changed"]


@pytest.mark.parametrize("sizes", [None, [], {"/a": None}, {"/a": "9"}])
def test_a_damaged_manifest_makes_its_step_stale(sizes: object, tmp_path: Path) -> None:
    now = describe_state({}, {"seed": 1})
    assert find_changes({**now, "sizes": sizes}, now, [tmp_path]) == ["its manifest is damaged"]


def test_a_bare_copy_of_the_code_has_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without .git, pyproject.toml and the installed package every step ended in PackageNotFoundError."""

    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    def missing() -> str:
        raise PackageNotFoundError("image-copy-detection")

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr("image_copies.data.commands.find_version", missing)
    assert code_version() == "unknown"


def test_an_environment_within_another_checkout_does_not_take_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the installed package named the commit of the folder that the environment happened to lie in."""
    installed = tmp_path / "environment" / "image_copies" / "step.py"
    installed.parent.mkdir(parents=True)
    shutil.copy(step_module.__file__, installed)
    author = ("-c", "user.name=A", "-c", "user.email=a@b")
    for command in (("init", "--quiet"), (*author, "commit", "--quiet", "--allow-empty", "--message", "theirs")):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    monkeypatch.setattr(step_module, "__file__", str(installed))
    monkeypatch.setattr("image_copies.data.commands.find_version", lambda: "1.2.3")
    assert code_version() == "1.2.3"


def test_a_recipes_fingerprint_follows_all_but_the_workers() -> None:
    def fingerprint(workers: int, epochs: int = 2, **more: Any) -> str:
        stages = [{"intensity": 0.5, "image_size": 32, "batch_size": 8, "epochs": epochs}]
        one = {"descriptor": {"backbone": "test_efficientnet"}, "workers": workers, "stages": stages}
        return Recipe.model_validate({"models": {"one": one}, "embedding": {"workers": workers}} | more).fingerprint()

    same = fingerprint(0)
    assert fingerprint(3) == same
    assert len({same, fingerprint(0, epochs=3), fingerprint(0, seed=1), fingerprint(0, ensemble={"dimensions": [8]})}) == 4


CONTENT: dict[str, Any] = {"models": {"one": {"descriptor": {"backbone": "test_efficientnet"}, "stages": [{"image_size": 32}]}}}


def run_of(folder: Path, **changed: object) -> Run:
    return Run(folder, Recipe.model_validate(yaml.safe_load(yaml.safe_dump(CONTENT | changed))), folder)


def write_all(paths: Sequence[Path]) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")


@pytest.fixture
def all_done(tmp_path: Path) -> Run:
    """All steps done, on folders of files that are called images; nothing reads them."""
    run = replace(run_of(tmp_path / "run"), data=tmp_path / "data")
    sizes = {run.data / "training_images": 20, run.data / "reference_images": 3, run.data / "query_images": 3}
    for folder, count in (sizes | {run.paths.query_images: 3}).items():
        write_all([folder / f"{folder.name[0]}{number}.jpg" for number in range(count)])
    for step in STEPS:
        for product in step.products(run):
            make_product(run, step, replace(product, work=partial(write_all, product.outputs)))
    return run


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """told(run, steps): what is said of steps that are stale, as another command finds them."""

    def report(run: Run, steps: Sequence[Step] = STEPS) -> str:
        capsys.readouterr()
        report_stale(replace(run), steps)
        return capsys.readouterr().out

    return report


def test_what_is_up_to_date_is_not_mentioned(all_done: Run, told: Callable[..., str]) -> None:
    assert told(all_done) == ""
    for path in (all_done.folder / "manifests").iterdir():  # another version of the code, which records other things
        manifest = json.loads(path.read_text())
        manifest["code"] = "older"
        if path.stem == "03_ensemble":
            del manifest["parameters"]["ensemble"]["training_sample"]
            manifest["parameters"]["normalization"]["bygone"] = False
        path.write_text(json.dumps(manifest))
    assert told(all_done) == ""
    all_done.paths.query_ground_truth.unlink()  # to make room: nothing says that it was another one
    assert told(all_done) == told(run_of(all_done.folder / "new")) == ""


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"ensemble": {"dimensions": 64}}, "step 03_ensemble is stale (parameter ensemble changed)"),
        ({"embedding": {"flip": True}}, "step 02_embed is stale (one training: parameter flip changed and 3 more)"),
        ({"models": {"two": CONTENT["models"]["one"]}}, "step 03_ensemble is stale (parameter models changed)"),
    ],
)
def test_a_changed_recipe_is_told_by_every_later_step(
    all_done: Run, told: Callable[..., str], changed: dict[str, object], reported: str
) -> None:
    run, step = replace(run_of(all_done.folder, **changed), data=all_done.data), reported.split()[1]
    names = [one.name for one in STEPS]
    assert told(run, STEPS[: names.index(step)]) == ""
    for later in ("04_normalize", "05_submit", "06_score"):
        said = told(run, STEPS[: names.index(later)])
        assert f"{reported}: its earlier results are used. Repeat it: python pipeline/{step}.py --run {run.folder}" in said
        assert said.count("\n") == 1


def test_a_step_whose_input_was_made_again_is_stale(all_done: Run, told: Callable[..., str]) -> None:
    all_done.paths.embeddings("one", "query").write_text("another")
    assert "step 03_ensemble is stale (input embeddings changed)" in told(all_done, STEPS[:4])


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
    all_done: Run, told: Callable[..., str], file: str, content: bytes | None, stale: set[str]
) -> None:
    assert told(all_done) == ""
    path = all_done.data / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))  # an older file that takes its place
    lines = told(all_done).splitlines()
    for named in stale:
        step, _, why = named.partition(" ")
        assert any(line.startswith(f"step {step} is stale {why}") and f"pipeline/{step}.py" in line for line in lines), lines
    assert len(lines) == len(stale), "an image of the synthetic queries is no class of step 01"


def test_a_class_that_changed_is_one_of_step_01(all_done: Run, told: Callable[..., str]) -> None:
    assign_training_roles(all_done).classes.paths[0].write_bytes(b"longer than before")
    assert "step 01_train is stale (one: input classes changed)" in told(all_done)


def test_folders_are_listed_once_within_run_all(all_done: Run, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just had each earlier step all_done."""
    (all_done.data / "query_images" / "q1.jpg").write_bytes(b"another")
    monkeypatch.setenv(SESSION_VARIABLE, str(os.getpid()))
    assert told(all_done) == ""


def test_a_folder_that_is_gone_is_named(all_done: Run, told: Callable[..., str]) -> None:
    """To make room, perhaps: later steps work without it."""
    shutil.rmtree(all_done.data / "query_images")
    (line,) = told(all_done).splitlines()
    assert line.startswith("step 02_embed is stale") and "query_images" in line
