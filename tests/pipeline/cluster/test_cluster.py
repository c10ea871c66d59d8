"""Commands on a Ray cluster of two nodes on this machine make the bytes that they make in one process."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCommand = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.cluster


def read_folder(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def two_runs(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two copies of a run that have to be embedded, in shards of seven images."""
    copies = []
    for name in ("one", "cluster"):
        copy = tmp_path_factory.mktemp(name) / "run"
        shutil.copytree(small_run, copy)
        recipe = copy / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("embedding: {workers: 0}", "embedding: {workers: 0, shard: 7}"))
        for folder in ("embeddings", "ensemble", "manifests"):
            shutil.rmtree(copy / folder)
        copies.append(copy)
    return copies[0], copies[1]


@pytest.mark.parametrize(("step", "made"), [("02_embed", "embeddings")])
def test_a_step_makes_the_bytes_of_one_process(
    step: str, made: str, two_runs: tuple[Path, Path], nodes: Any, tmp_path: Path, run_command: RunCommand
) -> None:
    done = run_command(tmp_path, step, "--run", two_runs[0])
    assert done.returncode == 0, done.stderr
    done = run_command(tmp_path, step, "--run", two_runs[1], "--ray", nodes.address)
    assert done.returncode == 0, done.stderr
    assert "workers on 2 nodes" in done.stdout
    alone, together = (read_folder(run / made) for run in two_runs)
    assert alone.keys() == together.keys() and len(alone) > 0
    assert [name for name in alone if alone[name] != together[name]] == []
