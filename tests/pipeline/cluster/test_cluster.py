"""Commands on a Ray cluster of two nodes on this machine make the bytes that they make in one process."""

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.remote import as_path
from image_copies.pipeline.deduplicate import main as deduplicate

RunCommand = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.cluster


def read_folder(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """What a folder holds, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.is_file()}


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


@pytest.mark.quick
@pytest.mark.parametrize(
    ("step", "made"), [("02_embed", "embeddings"), ("03_ensemble", "ensemble"), ("04_normalize", "normalized")]
)
def test_a_step_makes_the_bytes_of_one_process(
    step: str,
    made: str,
    two_runs: tuple[Path, Path],
    nodes: Any,
    tmp_path: Path,
    run_command: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.PAIRS_WORTH_SENDING", 0)
    done = run_command(tmp_path, step, "--run", two_runs[0])
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    done = run_command(tmp_path, step, "--run", two_runs[1], "--ray", "auto")
    assert done.returncode == 0, done.stderr
    # the only candidate of this recipe needs no search
    assert ("shards on Ray" in done.stdout) == (step != "03_ensemble")
    alone, together = (read_folder(run / made) for run in two_runs)
    assert alone.keys() == together.keys() and len(alone) > 0
    assert [name for name in alone if alone[name] != together[name]] == []


@pytest.mark.quick
def test_a_submission_is_scored_as_in_one_process(
    small_run: Path, nodes: Any, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("04_normalize", "05_submit"):
        assert run_command(tmp_path, step, "--run", small_run).returncode == 0
    truth = tmp_path / "truth.csv"
    truth.write_text("query_id,reference_id\n" + "".join(f"Q{n:06d},R{n:06d}\n" for n in range(9)))
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 4)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.PAIRS_WORTH_SENDING", 0)
    for name, more in (("one.json", ()), ("cluster.json", ("--ray", nodes.address))):
        arguments = ("--submission", small_run / "submission.h5", "--ground-truth", truth, "--output", tmp_path / name)
        done = run_command(tmp_path, "06_score", *arguments, *more)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "cluster.json").read_bytes()


STEPS = ("02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score")


@pytest.fixture(scope="module")
def places(object_store: Any, small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The small run's data set with a ground truth: in a folder and in a bucket."""
    data = tmp_path_factory.mktemp("store") / "data"
    shutil.copytree(small_run.parent / "data", data)
    (data / "public_ground_truth.csv").write_text("query_id,reference_id\n" + "".join(f"Q{n:06d},R{n:06d}\n" for n in range(9)))
    files = {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    return data, object_store.make_bucket("cluster", files)


def test_two_nodes_read_pictures_in_a_bucket_as_one_process_does_on_a_disk(
    small_run: Path,
    places: tuple[Path, str],
    nodes: Any,
    run_command: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("image_copies.submissions.search.neighbours.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr("image_copies.submissions.search.neighbours.PAIRS_WORTH_SENDING", 0)
    runs = tmp_path / "alone", tmp_path / "together"
    for run, data in zip(runs, places, strict=True):
        shutil.copytree(small_run, run, ignore=shutil.ignore_patterns("embeddings", "ensemble", "manifests", "normalized", ".*"))
        (run / "run.json").write_text(json.dumps({"data": str(data)}))
        recipe = run / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("embedding: {workers: 0}", "embedding: {workers: 0, shard: 7}"))
    for step in STEPS:
        for run, more in zip(runs, ((), () if step == "05_submit" else ("--ray", nodes.address)), strict=True):
            done = run_command(tmp_path, step, "--run", run, *more)
            assert done.returncode == 0, done.stderr
            # the only candidate of this recipe needs no search
            assert ("shards on Ray" in done.stdout) == (bool(more) and step != "03_ensemble"), done.stdout
    made = [path.relative_to(runs[0]) for path in sorted(runs[0].rglob("*")) if path.suffix in (".h5", ".csv")]
    assert {"embeddings", "ensemble", "normalized", "submission.h5"} <= {path.parts[0] for path in made}
    assert [path for path in made if (runs[0] / path).read_bytes() != (runs[1] / path).read_bytes()] == []


def test_two_nodes_write_vectors_into_a_bucket(
    places: tuple[Path, str], nodes: Any, run_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    alone, together = tmp_path / "v.h5", as_path(f"{places[1]}/out/v.h5")
    for data, output, more in zip(places, (alone, together), ((), ("--ray", nodes.address)), strict=True):
        # without workers: forked, they would inherit the threads of Ray and of the store
        arguments = ("--images", f"{data}/query_images", "--output", output, "--workers", "0")
        done = run_command(tmp_path, "02_embed", *arguments, *more)
        assert done.returncode == 0, done.stderr
        assert ("15 images in 1 shards on" in done.stdout) == bool(more)
    assert together.read_bytes() == alone.read_bytes()
    assert [path.name for path in together.parent.iterdir()] == ["v.h5"]


@pytest.mark.quick
def test_copies_in_a_bucket_are_those_on_a_disk(
    object_store: Any,
    nodes: Any,
    sources: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pandas = pytest.importorskip("pandas")
    files = {f"in/{path.relative_to(sources)}": path.read_bytes() for path in sources.rglob("*") if path.is_file()}
    bucket = object_store.make_bucket("dedup", files)

    def run(source: object, output: object, *ray: str) -> list[list[list[Any]]]:
        assert deduplicate(["--input", str(source), "--output", str(output), *ray]) == 0
        paths = [as_path(f"{output}/{name}.parquet") for name in ("keep", "remove", "review", "unreadable")]
        tables = [pandas.read_parquet(io.BytesIO(path.read_bytes())).replace(f"{source}", "", regex=True) for path in paths]
        return [table.fillna("").to_numpy().tolist() for table in tables]

    on_nodes = ("--ray", nodes.address)
    here, there = run(sources, tmp_path / "out"), run(f"{bucket}/in", f"{bucket}/out", *on_nodes)
    assert here == there and [len(found) for found in there] == [6, 4, 0, 1]
    capsys.readouterr()
    assert run(f"{bucket}/in", f"{bucket}/out", *on_nodes) == there
    assert "11 pictures are embedded already" in capsys.readouterr().out
    assert deduplicate(["--output", f"{bucket}/out", "--apply", f"{bucket}/filtered"]) == 0
    written = {path.name for path in as_path(f"{bucket}/filtered").iterdir()}
    assert written == {"000001-shard.tar", "000002-table.parquet", "manifest.csv"}
