"""Commands on a Ray cluster of two nodes on this machine make the bytes that they make in one process."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from image_copies.data.procedural import write_pictures
from image_copies.matching import search as match_search
from image_copies.matching.index import codes, filling, search, segments
from image_copies.matching.index.database import DATABASE
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.steps import ensemble
from image_copies.submissions.ensemble import projection

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
    monkeypatch.setattr("image_copies.submissions.search.exact.REFERENCES_PER_SHARD", 13)
    monkeypatch.setattr(projection, "ROWS_PER_SHARD", 11)
    monkeypatch.setattr(ensemble, "ROWS_PER_SHARD", 16)
    done = run_command(tmp_path, step, "--run", two_runs[0])
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    done = run_command(tmp_path, step, "--run", two_runs[1], "--ray", "auto")
    assert done.returncode == 0, done.stderr
    assert step == "04_normalize" or "shards on Ray" in done.stdout
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
    monkeypatch.setattr("image_copies.submissions.search.exact.REFERENCES_PER_SHARD", 4)
    monkeypatch.setattr("image_copies.submissions.search.exact.PAIRS_WORTH_SENDING", 0)
    for name, more in (("one.json", ()), ("cluster.json", ("--ray", nodes.address))):
        arguments = ("--submission", small_run / "submission.h5", "--ground-truth", truth, "--output", tmp_path / name)
        done = run_command(tmp_path, "06_score", *arguments, *more)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "cluster.json").read_bytes()


@pytest.mark.parametrize("coded", [False, True])
def test_an_index_holds_and_finds_what_one_process_does(
    nodes: Any, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, coded: bool
) -> None:
    for module, name, value in (
        *((filling, "IMAGES_PER_COMMIT", 8), (match_search, "QUERIES_PER_BLOCK", 8), (match_search, "BLOCKS_PER_ROUND", 3)),
        *((segments, "MAX_SEGMENT_CONTENTS", 12), (segments, "SEGMENT_CONTENTS_PER_ROOT", 0)),
        (segments, "MIN_CHANGED_CONTENTS", 4),
        *((codes, "MIN_CODED_CONTENTS", 20 if coded else 1000), (codes, "TRAINING_VECTORS_PER_LIST", 16)),
        (search, "PAIRS_WORTH_SENDING", 0),
    ):
        monkeypatch.setattr(module, name, value)
    list(write_pictures(tmp_path / "pictures", "R", 30, seed=1, workers=1))
    list(write_pictures(tmp_path / "unrelated", "U", 25, seed=2, workers=1))
    shutil.copy(tmp_path / "pictures/R000002.jpg", tmp_path / "pictures/again.jpg")
    for number in (3, 5, 17):
        with Image.open(tmp_path / f"pictures/R{number:06d}.jpg") as picture:
            picture.save(tmp_path / f"pictures/copy-{number}.jpg", quality=30)
    (tmp_path / "pictures/broken.jpg").write_bytes(b"no picture")
    held, derived, matched = [], [], []
    for name, more in (("one.json", ()), ("cluster.json", ("--ray", nodes.address))):
        for output, arguments in (
            ("", ("add", "pictures", "--index", f"index-{name}")),
            ("known", ("--index", f"index-{name}", "--queries", "pictures", "--unrelated", "unrelated")),
            ("within", ("--queries", "pictures", "--threshold", "-0.5")),
        ):
            where = ("--output", tmp_path / name / output) if output else ()
            done = run_command(tmp_path, "match", *arguments, "--checkpoint", SHIPPED, *where, *more, "--json")
            assert done.returncode == 0, done.stderr
            assert all(line.startswith("{") for line in done.stdout.splitlines())
            if output:
                assert ("  searching the index: " in done.stderr) == bool(more), done.stderr
            assert ("encoding vectors: " in done.stderr) == (coded and bool(more and output)), done.stderr
        with closing(sqlite3.connect(tmp_path / f"index-{name}" / DATABASE)) as database:
            held.append([database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("contents", "files")])
        derived.append(read_folder(tmp_path / f"index-{name}", "[cqv]*"))
        files = (
            "known/matches.csv",
            "within/matches.csv",
            "within/groups.csv",
            "within/plan.csv",
            "within/cuts.csv",
        )
        matched.append([(tmp_path / name / file).read_text() for file in files])
        matched[-1].append(str(json.loads((tmp_path / name / "known/search.json").read_text())["threshold"]))
    assert held[0] == held[1] and len(held[0][0]) == 34
    assert derived[0] == derived[1] and len(derived[0]) == (7 if coded else 3)
    assert [one for one, other in zip(*matched, strict=True) if one != other] == []
    assert all(f"copy-{number}.jpg" in matched[0][3] for number in (3, 5, 17))
