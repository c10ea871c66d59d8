"""A run folder on an object store: the steps from 02 on make there what they make on a disk, and notice the same changes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.data.locks import LOCK_NAME, hold_folder
from image_copies.data.remote import as_path
from tests.pipeline.two_runs import make_two_runs

TOP = Path(__file__).parents[3]
STEPS = ("02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score")
RunCommand = Callable[..., subprocess.CompletedProcess[str]]
HOLD = """
import sys
from image_copies.data.locks import hold_folder
from image_copies.data.remote import as_path
with hold_folder(as_path(sys.argv[1]), "03_ensemble"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def two_runs(small_run: Path, object_store: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that has to be embedded, with a ground truth: in a folder and in a bucket."""
    where = tmp_path_factory.mktemp("remote")
    return make_two_runs(small_run, where, object_store, "runs", shard=30, with_pictures=False)


@pytest.mark.slow
def test_a_run_on_a_store_is_that_of_a_disk(two_runs: tuple[Path, Path], run_command: RunCommand, tmp_path: Path) -> None:
    local, remote = two_runs
    for step in STEPS:
        for run in two_runs:
            done = run_command(tmp_path, step, "--run", run)
            assert done.returncode == 0, done.stderr
            assert "warning" not in done.stderr
    made = sorted(path.relative_to(local) for path in local.rglob("*") if path.is_file() and path.name != LOCK_NAME)
    assert made == sorted(path.relative_to(remote) for path in remote.list_files())  # type: ignore[attr-defined]
    exact = [path for path in made if path.suffix in (".h5", ".csv", ".jpg", ".txt")]
    assert len(exact) > 20 and [path for path in exact if (local / path).read_bytes() != (remote / path).read_bytes()] == []
    scores = [json.loads((run / "scores.json").read_text()) for run in two_runs]
    assert scores[0] == scores[1]
    for step in STEPS:
        done = run_command(tmp_path, step, "--run", remote)
        assert done.returncode == 0 and done.stdout.count("up to date") == (
            4 if step == "02_embed" else 2 if step == "03_ensemble" else 1
        )


@pytest.mark.slow
def test_changes_are_noticed_on_a_store(two_runs: tuple[Path, Path], run_command: RunCommand, tmp_path: Path) -> None:
    _, remote = two_runs
    assert run_command(tmp_path, "03_ensemble", "--run", remote).returncode == 0
    (remote / "ensemble/query.h5").unlink()
    done = run_command(tmp_path, "03_ensemble", "--run", remote)
    assert done.returncode == 0 and f"03_ensemble: {remote}/ensemble/query.h5 is gone" in done.stdout
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text((remote / "recipe.yaml").read_text().replace("methods: method2", "methods: method1"))
    done = run_command(tmp_path, "04_normalize", "--run", remote, "--recipe", recipe)
    assert done.returncode == 0 and "step 03_ensemble is stale" in done.stdout
    assert "parameter methods changed" in done.stdout


@pytest.mark.slow
def test_training_and_indexes_need_a_disk(two_runs: tuple[Path, Path], run_command: RunCommand, tmp_path: Path) -> None:
    _, remote = two_runs
    done = run_command(tmp_path, "01_train", "--run", remote)
    assert done.returncode == 2 and f"one cannot be trained in {remote}" in done.stderr
    shell = subprocess.run(["bash", TOP / "run_all.sh", "--run", str(remote)], capture_output=True, text=True, check=False)
    assert shell.returncode == 2 and "training needs a folder of this machine" in shell.stderr


def test_one_process_at_a_time_works_in_a_folder_on_a_store(object_store: Any) -> None:
    folder = as_path(object_store.make_bucket("locked", {})) / "run"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TOP, env=dict(os.environ)
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        message = rf"s3://locked/run is in use \(03_ensemble, process {first.pid} on .*, since 20"
        with pytest.raises(UserError, match=message), hold_folder(folder, "02_embed"):
            pass
        first.kill()
        first.wait()
    with hold_folder(folder, "02_embed"):  # a killed process of this machine keeps nobody out
        assert (folder / LOCK_NAME).is_file()
    assert not (folder / LOCK_NAME).exists()


def test_the_lock_of_another_machine_has_to_be_deleted(object_store: Any) -> None:
    folder = as_path(object_store.make_bucket("elsewhere", {})) / "run"
    with hold_folder(folder, "02_embed"):
        about = json.loads((folder / LOCK_NAME).read_bytes())
    (folder / LOCK_NAME).create(json.dumps(about | {"host": "other"}).encode())  # type: ignore[attr-defined]
    with (
        pytest.raises(UserError, match=r"in use \(02_embed, process \d+ on other, .*delete s3://elsewhere/run/.in-use"),
        hold_folder(folder, "03"),
    ):
        pass
    (folder / LOCK_NAME).unlink()
    with hold_folder(folder, "03"):
        pass
