"""A run folder and its pictures on an object store, worked on by two nodes: the bytes of a run on a disk, made in one process."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_copies.pipeline.steps import ensemble
from image_copies.submissions.ensemble import moments
from tests.pipeline.two_runs import make_two_runs

pytestmark = pytest.mark.cluster
STEPS = ("02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score")
PICTURES = ("training", "reference", "query")


@pytest.fixture(scope="module")
def two_runs(small_run: Path, object_store: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that has to be embedded, with its pictures and a ground truth: in a folder and in a bucket."""
    where = tmp_path_factory.mktemp("stored")
    return make_two_runs(small_run, where, object_store, "cluster", shard=7, with_pictures=True)


def test_two_nodes_make_in_a_bucket_what_one_process_makes_on_a_disk(
    two_runs: tuple[Path, Path],
    nodes: Any,  # after the store, whose variables they inherit
    run_command: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("image_copies.submissions.search.references.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr("image_copies.submissions.search.references.PAIRS_WORTH_SENDING", 0)
    monkeypatch.setattr(moments, "ROWS_PER_SHARD", 11)
    monkeypatch.setattr(ensemble, "ROWS_PER_SHARD", 16)
    monkeypatch.setattr("image_copies.pipeline.cluster.engine.SHORT_SECONDS", 0)
    local, remote = two_runs
    for step in STEPS:
        done = run_command(tmp_path, step, "--run", local)
        assert done.returncode == 0, done.stderr
        more = () if step == "05_submit" else ("--ray", nodes.address)
        done = run_command(tmp_path, step, "--run", remote, *more)
        assert done.returncode == 0, done.stderr
        assert ("workers on" in done.stdout) == bool(more), done.stdout
    made = [path.relative_to(local) for path in sorted(local.rglob("*")) if path.suffix in (".h5", ".csv")]
    assert {"embeddings", "ensemble", "normalized", "submission.h5"} <= {path.parts[0] for path in made}
    assert [path for path in made if (local / path).read_bytes() != (remote / path).read_bytes()] == []
    scores = [json.loads((run / "scores.json").read_text()) for run in two_runs]
    for score in scores:
        score["made_from"].pop("data")  # of pictures elsewhere
    assert scores[0] == scores[1]
    left = [path for path in remote.list_files() if "-shards-" in str(path)]  # type: ignore[attr-defined]
    assert left == []
