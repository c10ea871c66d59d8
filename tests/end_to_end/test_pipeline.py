"""All seven steps on sixty tiny pictures; then everything that can go wrong.

One step is a process, as a user starts it; the others run in this one: importing torch takes longer than they do.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.models.training import state, trainer
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps import definitions
from image_copies.submissions.ensemble.variant import MEAN, read_choice
from tests.pictures import write_images
from tests.runs import RunCommand

TOP = Path(__file__).parents[2]
RECIPE = """
seed: 0
queries: {count: 12, copies: 6, augmentation: {intensity: 0.3, extra: true}}
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 16}
    workers: 0
    stages:
      - {classes: 10, intensity: 0.1, image_size: 32, batch_size: 8, epochs: 1}
      - {classes: 20, intensity: 0.2, image_size: 32, batch_size: 8, epochs: 1}
      - {intensity: 0.3, image_size: 48, batch_size: 8, epochs: 1}
  two:
    descriptor: {backbone: test_nfnet, dimensions: 16}
    workers: 0
    extra_edits: true
    stages: [{classes: 10, intensity: 0.6, image_size: 32, batch_size: 8, epochs: 1}]
embedding: {workers: 0, flip: true}
ensemble: {dimensions: [8, 16], eigen_power: [0, -0.5]}
normalization: {direction_neighbours: 10}
"""
STEPS = ["00_augment", "01_train", "02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score"]
Step = Callable[..., str]


def start_step(where: Path, name: str, *arguments: object) -> str:
    """A step as a process; what it printed."""
    command = [sys.executable, str(TOP / "pipeline" / f"{name}.py"), *map(str, arguments)]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def step(run_command: RunCommand) -> Step:
    """step(where, name, *arguments): what the step printed, which must succeed."""

    def run(where: Path, name: str, *arguments: object) -> str:
        done = run_command(where, name, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def fails(run_command: RunCommand) -> Step:
    """fails(where, name, *arguments): the one message of the step, which must end with code 2."""

    def run(where: Path, name: str, *arguments: object) -> str:
        done = run_command(where, name, *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stderr.startswith("error: ")
        return done.stderr

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, run_command: RunCommand) -> Path:
    """A working folder with data/ and a finished run; one training image and one reference are damaged."""
    where = tmp_path_factory.mktemp("work")
    data = where / "data"
    write_images(data / "training_images", 50)
    references = write_images(data / "reference_images", 12, "R", seed=1)
    spare = write_images(where / "spare", 6, "D", seed=1)
    made = where / "made"
    make_query_set(references, spare, spare, AugmentationSettings(intensity=0.2), 0, 12, 6, made)
    for name in ("query_images", "public_ground_truth.csv", "query_edits.csv"):
        (made / name).rename(data / name)
    truth = (data / "public_ground_truth.csv").read_text()
    unused = next(image_id for image_id in references.ids if image_id not in truth)
    (data / "reference_images" / f"{unused}.jpg").write_bytes(b"this is no image")
    (data / "training_images" / "T000003.jpg").write_bytes(b"")
    (where / "recipe.yaml").write_text(RECIPE)
    outputs = list[str]()
    for name in STEPS:
        first = ("--data", "data", "--run", "runs/tiny", "--recipe", "recipe.yaml") if name == STEPS[0] else ()
        done = run_command(where, name, *first)
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append(done.stdout)
    (where / "log.txt").write_text("".join(outputs))
    return where


def test_the_run_ends_with_a_valid_scored_submission(finished: Path, step: Step) -> None:
    run = finished / "runs" / "tiny"
    scores = json.loads((run / "scores.json").read_text())
    names = [row["name"] for row in scores["variants"]]
    assert [name.split(":")[0].split(" (")[0] for name in names] == [
        "model", "model", "ensemble", "ensemble, method 1", "ensemble, method 2", "submitted",
    ]  # fmt: skip
    assert set(scores["made_from"]) == {"recipe", "data", "submission", "threads", "code", "versions"}
    assert set(scores["made_from"]["data"]) == {"training", "reference", "query", "ground truth"}
    assert scores["made_from"]["submission"] == hashlib.sha256((run / "submission.h5").read_bytes()).hexdigest()
    manifests = [json.loads(path.read_text()) for path in (run / "manifests").iterdir()]
    assert {manifest["recipe"] for manifest in manifests} == {scores["made_from"]["recipe"]}
    assert all(manifest["code"] and manifest["versions"] and manifest["inputs"] for manifest in manifests)
    assert scores["queries"] == 12 and scores["references"] == 12 and scores["true_pairs"] == 6
    table = read_choice(run / "ensemble/choice.csv")[1]
    assert scores["synthetic"]["µAP"] == table[MEAN][0] == table[MEAN].max()
    checked = step(finished, "05_submit", "--check", run / "submission.h5", "--data", "data")
    assert "is a valid submission" in checked
    assert (run / "report" / "index.html").is_file()
    log = (finished / "log.txt").read_text()
    assert "1 of 12 images cannot be read and match nothing" in log
    assert log.count("stage 3: ") == 1
    opened = Run(run, read_recipe(finished / "recipe.yaml"), finished / "data")
    products = [opened.paths.manifest(one.label(product)) for one in definitions.STEPS for product in one.products(opened)]
    assert set((run / "manifests").iterdir()) == set(products)
    assert [one.name for one in definitions.STEPS] == STEPS
    run_all = (TOP / "run_all.sh").read_text()
    assert re.findall(r"\d\d_[a-z]+", run_all) == STEPS


def test_a_second_run_does_nothing(finished: Path, step: Step) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / "runs" / "tiny").rglob("*.h5")}
    for name in STEPS:
        run = start_step if name == STEPS[-1] else step
        assert "up to date" in run(finished, name, "--run", "runs/tiny")
    assert before == {path: path.stat().st_mtime_ns for path in (finished / "runs" / "tiny").rglob("*.h5")}


def test_workers_and_a_stop_leave_the_submission_as_it_is(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Step, run_command: RunCommand
) -> None:
    """The same seed gives the same bytes with loader workers, whose training is killed in the second stage's epoch."""
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("workers: 0", "workers: 1"))
    for module, name, value in (
        (state, "SAVE_INTERVAL_SECONDS", 0.0),
        (state, "SAVING_PAUSE", 0.0),
        (trainer, "STEPS_PER_CHECK", 1),
    ):
        monkeypatch.setattr(module, name, value)
    learn, left, run = Trainer.step, iter(range(3)), tmp_path / "runs" / "again"

    def stopped(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise SystemExit(137)
        return learn(*arguments)

    step(tmp_path, STEPS[0], "--run", run, "--data", finished / "data", "--recipe", "recipe.yaml")
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", stopped)
        assert run_command(tmp_path, STEPS[1], "--run", run).returncode == 137
    progress = json.loads((run / "models/one/state.json").read_text())["progress"]
    assert (progress["stage"], progress["batch"]) == (1, 1)
    for name in STEPS[1:]:
        step(tmp_path, name, "--run", run)
    for name in ("submission.h5", "matches.csv", "scores.json"):
        assert (run / name).read_bytes() == (finished / "runs" / "tiny" / name).read_bytes(), name


def test_scoring_any_submission(finished: Path, step: Step) -> None:
    submission, truth = finished / "runs/tiny/submission.h5", finished / "data/public_ground_truth.csv"
    step(finished, "06_score", "--submission", submission, "--ground-truth", truth, "--output", "out/scores.json")
    scores = json.loads((finished / "out" / "scores.json").read_text())
    assert set(scores) == {
        "micro_average_precision", "recall_at_precision_90", "recall_at_rank_1", "recall_at_rank_10",
        "queries", "references", "true_pairs", "made_from",
    }  # fmt: skip
    assert set(scores["made_from"]) == {"file", "ground_truth", "code", "versions"}
    assert scores["made_from"]["file"] == hashlib.sha256(submission.read_bytes()).hexdigest()
    run_scores = json.loads((finished / "runs/tiny/scores.json").read_text())
    assert scores["micro_average_precision"] == run_scores["micro_average_precision"]


def test_torchrun_is_for_training_only(finished: Path, tmp_path: Path, run_command: RunCommand) -> None:
    for step in ("02_embed", "03_ensemble", "04_normalize", "06_score"):
        done = run_command(tmp_path, step, "--run", finished / "runs/tiny", RANK="0", WORLD_SIZE="2")
        assert done.returncode == 2 and "torchrun, which is for 01_train only: start this command once" in done.stderr


def test_wrong_input_gives_one_message_and_exit_code_2(finished: Path, tmp_path: Path, fails: Step) -> None:
    submission = finished / "runs/tiny/submission.h5"
    assert "does not exist" in fails(tmp_path, "00_augment", "--data", "nowhere")
    assert "step 00_augment has not been done" in fails(tmp_path, "02_embed", "--data", finished / "data", "--run", "runs/c")
    message = fails(tmp_path, "00_augment", "--data", finished / "data", "--run", "runs/b", "--recipe", tmp_path / "none.yaml")
    assert "no such recipe" in message
    (tmp_path / "unknown.csv").write_text("query_id,reference_id\nQ99999,\n")
    message = fails(tmp_path, "06_score", "--submission", submission, "--ground-truth", tmp_path / "unknown.csv")
    assert str(submission) in message and "names 1 queries that the submission lacks, the first is 'Q99999'" in message
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        file["query"], file["reference"] = np.zeros((1, 257), np.float32), np.zeros((1, 257), np.float32)
        file["query_ids"], file["reference_ids"] = ["Q00000"], ["R000000"]
    message = fails(tmp_path, "05_submit", "--check", tmp_path / "wide.h5", "--data", finished / "data")
    assert "257 dimensions; 1…256" in message and "images have no vector" in message


def test_vectors_of_different_checkpoints_are_named(finished: Path, tmp_path: Path, fails: Step) -> None:
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(finished / "runs" / "tiny", copy)
    shorter = copy / "embeddings" / "two" / "query.h5"
    with h5py.File(shorter, "r+") as file:
        vectors = file["vectors"][:, :12]
        del file["vectors"]
        file["vectors"] = vectors
    message = fails(tmp_path, "03_ensemble", "--run", copy)
    assert f"{shorter} has 12 dimensions, " in message and "has 16" in message and "02_embed.py" in message


def test_later_steps_say_that_an_earlier_one_is_stale(finished: Path, tmp_path: Path, step: Step, fails: Step) -> None:
    assert "stale" not in (finished / "log.txt").read_text()
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(finished / "runs" / "tiny", copy)
    old, new = RECIPE, RECIPE.replace("dimensions: [8, 16]", "dimensions: 64")
    (tmp_path / "new.yaml").write_text(new)
    message = fails(tmp_path, "03_ensemble", "--run", copy, "--recipe", "new.yaml")
    assert "training.h5 and 1 more without the 10 validation images: a PCA of 39 training vectors with 32 dimensions" in message
    stale = "step 03_ensemble is stale (parameter ensemble changed): its earlier results are used. Repeat it: python "
    for name in ("04_normalize", "05_submit", "06_score"):
        assert stale in step(tmp_path, name, "--run", copy)
    (copy / "recipe.yaml").write_text(old)
    assert "stale" not in step(tmp_path, "04_normalize", "--run", copy)
    (copy / "ensemble" / "choice.csv").unlink()  # as a killed step 03 leaves it, its sets of two recipes
    for name in ("04_normalize", "05_submit"):
        assert "choice.csv is missing: step 03_ensemble has not been done" in fails(tmp_path, name, "--run", copy)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_all_leaves_no_step_behind(tmp_path: Path, number: int, code: int) -> None:
    process = subprocess.Popen(
        ["bash", str(TOP / "run_all.sh")],
        cwd=tmp_path,
        env=os.environ | {"PYTHON": sys.executable},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever started the tests may ignore it
    )
    end = time.monotonic() + 60
    while not list(tmp_path.glob("runs/data/.sample.*.part/sample/training_images/T*")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == code and "stopped; finished files and vectors are kept" in message and "Traceback" not in message
    written = sorted(tmp_path.rglob("*"))
    time.sleep(0.5)
    assert sorted(tmp_path.rglob("*")) == written and not list(tmp_path.glob("runs/data/.sample.*.part"))


@pytest.fixture
def called(tmp_path: Path) -> Callable[..., list[str]]:
    """called(*arguments): the commands that run_all.sh starts with its arguments."""
    recorder, calls = tmp_path / "python", tmp_path / "calls.txt"
    recorder.write_text(f'#!/bin/sh\necho "$(basename "$1") $*" >> {calls}\n')
    recorder.chmod(0o755)

    def run(*arguments: str) -> list[str]:
        calls.unlink(missing_ok=True)
        command = ["bash", str(TOP / "run_all.sh"), *arguments]
        subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHON": str(recorder)}, check=True)
        return calls.read_text().splitlines()

    return run


def test_run_all_continues_a_run_with_its_own_data(tmp_path: Path, called: Callable[..., list[str]]) -> None:
    """`run_all.sh --run DIR` alone switched the run to the sample's data and did everything again."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").write_text('{"data": "photos"}')
    lines = called("--run", "mine")
    assert [line.split(".py")[0] for line in lines] == STEPS
    assert not any("--data" in line for line in lines) and lines[0].endswith("--run mine")


def test_run_all_starts_from_what_ships_for_pictures_of_ones_own(tmp_path: Path, called: Callable[..., list[str]]) -> None:
    """The sample learns from nothing; a run that exists keeps its recipe; a named recipe is taken."""
    for name in ("mine", "old"):
        (tmp_path / name).mkdir()
    (tmp_path / "old" / "run.json").write_text('{"data": "mine"}')
    for arguments, ending in (
        (("--data", "mine"), "recipes/collection.yaml"),
        (("--photos", "mine"), "recipes/collection.yaml"),
        ((), "recipes/sample.yaml"),
        (("--data", "mine", "--recipe", "other.yaml"), "--recipe other.yaml"),
    ):
        first = next(line for line in called(*arguments) if "00_augment" in line)
        assert first.endswith(ending), arguments
    assert not any("--recipe" in line for line in called("--data", "mine", "--run", "old"))


def test_run_all_refuses_wrong_options(tmp_path: Path) -> None:
    def run_all(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(TOP / "run_all.sh"), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True)

    assert "--photos DIR" in run_all("--help").stdout
    for arguments in ("--dat x", "--data", "--data ", "--data a --photos b", "--photos nowhere", "--data nowhere"):
        done = run_all(*arguments.split(" "))
        assert done.returncode == 2 and done.stderr.startswith("error: "), arguments
