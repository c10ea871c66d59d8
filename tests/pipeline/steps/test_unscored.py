"""Step 06 on a data set without ground truth, and with one that comes later."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.steps import score
from image_copies.pipeline.steps.score_table import collect_warnings
from image_copies.submissions.formats.matching_track import read_matches

RunCommand = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def submitted(small_run: Path, tmp_path_factory: pytest.TempPathFactory, run_command: RunCommand) -> Run:
    """A run up to step 05 on 15 queries and 6 references without ground truth; a query cannot be read, and a training warned."""
    where = tmp_path_factory.mktemp("unscored")
    shutil.copytree(small_run, where / "run")
    shutil.copytree(small_run.parent / "data", where / "data")
    (where / "data/query_images/Q000003.jpg").write_bytes(b"this is no image")
    for number in range(6, 15):
        (where / f"data/reference_images/R{number:06d}.jpg").unlink()
    (where / "run/run.json").write_text(json.dumps({"data": str(where / "data")}))
    for step in ("02_embed", "03_ensemble", "04_normalize", "05_submit"):
        done = run_command(where, step, "--run", where / "run")
        assert done.returncode == 0, done.stderr
    run = open_existing_run(where / "run")
    run.paths.curve("one").write_text("stage,epoch,loss,ended_by,warning\n1,1,3,epochs,vectors <collapse> in stage 1\n")
    return run


def test_the_table_the_warnings_and_a_report_without_scores(submitted: Run, tmp_path: Path, run_command: RunCommand) -> None:
    done = run_command(tmp_path, "06_score", "--run", submitted.folder)
    assert done.returncode == 0, done.stderr
    assert "what the variant was chosen on" in done.stdout and "baseline: Gabor energies" in done.stdout
    warnings = collect_warnings(submitted)
    assert len(warnings) > 1 and warnings[-1] == "one: vectors <collapse> in stage 1"
    said = " ".join(done.stdout.split())
    assert all(f"warning: {warning}" in said for warning in warnings)
    assert f"has no public_ground_truth.csv, so there is no score. submission: {submitted.paths.submission}" in said
    assert said.endswith(f"report: {submitted.paths.report_page}")
    assert not submitted.paths.scores.exists() and not submitted.paths.details.exists()
    page = submitted.paths.report_page.read_text()
    assert "No score: there is no ground truth" in page and "<title>run: no ground truth, no score</title>" in page
    for part in (
        "baseline: Gabor energies", "vectors &lt;collapse&gt; in stage 1", "training of one", "04_normalize",
        "query: 1 of 15 images could not be read, the first is &#39;Q000003&#39;", "direction_neighbours: 10",
    ):  # fmt: skip
        assert part in page, part
    assert not re.search("recall at|true pairs|Every step|False alarms|bootstrap", page)
    table = read_matches(submitted.paths.matches)
    assert "Q000003" in set(table["query_id"])  # so few that pairs of unreadable ones fill up
    best = table[table["query_id"] != "Q000003"]
    pairs = re.findall(r"query<br>(Q\d+)</figcaption>.*?reference<br>(R\d+)<br><b>score −([\d.]+)</b>", page, re.DOTALL)
    scores = [f"{-score:.3f}" for score in best["score"]]
    assert pairs == list(zip(best["query_id"], best["reference_id"], scores, strict=True)) and len(pairs) == 14 * 6
    pictures = re.findall(r'src="([^"]+)"', page)
    assert len(pictures) == 2 * len(pairs) and all((submitted.paths.report / name).is_file() for name in pictures)
    assert "06_score: up to date" in run_command(tmp_path, "06_score", "--run", submitted.folder).stdout


def test_a_ground_truth_that_comes_later_is_scored_and_one_that_goes_leaves_no_scores(
    submitted: Run, tmp_path: Path, run_command: RunCommand
) -> None:
    def score() -> str:
        done = run_command(tmp_path, "06_score", "--run", submitted.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    score()
    truth = submitted.data / "public_ground_truth.csv"
    truth.write_text("query_id,reference_id\n" + "".join(f"Q{row:06d},R{row:06d}\n" for row in range(5)))
    said = score()
    assert f"06_score: {submitted.paths.scores} is gone; input ground truth changed\n" in said and "recall at rank 1" in said
    assert json.loads(submitted.paths.scores.read_text())["true_pairs"] == 5
    assert "Every step" in submitted.paths.report_page.read_text() and submitted.paths.details.is_dir()
    truth.unlink()
    assert "06_score: input ground truth changed" in score()
    assert "No score: there is no ground truth" in submitted.paths.report_page.read_text()
    assert not submitted.paths.scores.exists() and not submitted.paths.details.exists()


def test_what_a_killed_scoring_left_does_not_stay_when_its_ground_truth_goes(
    submitted: Run, tmp_path: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(run: Run) -> None:
        run.paths.report_page.write_text("scored " * 100_000)  # larger than the page before
        run.paths.scores.write_text("{}")
        raise KeyboardInterrupt

    assert run_command(tmp_path, "06_score", "--run", submitted.folder).returncode == 0
    truth = submitted.data / "public_ground_truth.csv"
    truth.write_text("query_id,reference_id\nQ000000,R000000\n")
    monkeypatch.setattr(score, "score_variants", write_half)
    assert run_command(tmp_path, "06_score", "--run", submitted.folder).returncode != 0
    truth.unlink()
    assert run_command(tmp_path, "06_score", "--run", submitted.folder).returncode == 0
    assert "No score: there is no ground truth" in submitted.paths.report_page.read_text()
    assert not submitted.paths.scores.exists()


def test_without_its_pairs_the_step_that_makes_them_is_named(submitted: Run, tmp_path: Path, run_command: RunCommand) -> None:
    kept = submitted.paths.matches.rename(tmp_path / "matches.csv")
    done = run_command(tmp_path, "06_score", "--run", submitted.folder)
    shutil.move(kept, submitted.paths.matches)
    assert done.returncode == 2 and "matches.csv is missing: step 05_submit has not been done" in done.stderr
