"""Step 06 with and without a ground truth: the synthetic queries, warnings, the report."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.steps import score
from image_copies.pipeline.steps.augment import synthetic_truths
from image_copies.pipeline.steps.definitions import AUGMENT, EMBED, ENSEMBLE, run_step
from image_copies.pipeline.steps.score_table import (
    collect_warnings,
    print_unscored,
    read_steps,
    read_synthetic,
)
from image_copies.submissions.ensemble.variant import LEARNT_FAMILIES, LEFT_OUT_FAMILIES, MEAN, Variant, read_choice
from image_copies.submissions.formats.matching_track import read_matches
from tests.runs import RunCommand, copy_run


def test_both_halves_of_the_queries_are_scored(small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    halves = ("intensity: 0.3}", "intensity: 0.3}, left_out: [warp, noise]")
    run = copy_run(small_run, tmp_path / "run", halves, ("methods: method2", "methods: [none, method2]"))
    assert synthetic_truths(run.paths, run.recipe.queries.left_out)[1] is None  # the queries are still those of before
    for step in (AUGMENT, EMBED, ENSEMBLE):
        run_step(run, step)
    learnt, left_out = synthetic_truths(run.paths, run.recipe.queries.left_out)
    whole = read_ground_truth(run.paths.query_ground_truth)
    assert left_out is not None and (len(learnt.pairs), len(left_out.pairs)) == (15, 15)
    assert sorted(learnt.query_ids + left_out.query_ids) == sorted(whole.query_ids)
    table = read_choice(run.paths.choice)[1]
    np.testing.assert_allclose(table[MEAN], (table[LEARNT_FAMILIES] + table[LEFT_OUT_FAMILIES]) / 2)
    synthetic = read_synthetic(run.paths.choice)
    assert list(synthetic) == ["µAP", "learnt families", "left-out families"] and synthetic["µAP"] == table[MEAN].max() > 0
    print_unscored(synthetic, ["vectors collapse"])
    said = capsys.readouterr().out
    assert f"µAP {synthetic['µAP']:.3f}, learnt families" in said and "warning: vectors collapse" in said


def test_step_03_chooses_nothing_where_there_is_one_candidate(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The choice wanted more training images than the vectors need that are written."""
    run = copy_run(small_run, tmp_path / "run", ("direction_neighbours: 10", "direction_neighbours: 70"))
    run_step(run, ENSEMBLE)
    assert read_choice(run.paths.choice)[0] == Variant(8, 0.0, "method2", 1.8)
    assert not read_synthetic(run.paths.choice) and "the variant: 8 dimensions" in capsys.readouterr().out


def test_a_left_out_family_without_edits_is_refused_by_step_00(small_run: Path, tmp_path: Path) -> None:
    run = copy_run(small_run, tmp_path / "run", ("intensity: 0.3}", "intensity: 0.3}, left_out: [warp, policy]"))
    with pytest.raises(UserError, match=r"queries\.left_out names 'policy', of which no table has an edit"):
        run_step(run, AUGMENT)


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
    run.paths.curve("one").write_text(
        "stage,epoch,loss,validation,ended_by,warning\n1,1,3,,epochs,vectors <collapse> in stage 1\n"
    )
    return run


def test_the_table_the_warnings_and_a_report_without_scores(submitted: Run, tmp_path: Path, run_command: RunCommand) -> None:
    done = run_command(tmp_path, "06_score", "--run", submitted.folder)
    assert done.returncode == 0, done.stderr
    warnings = collect_warnings(submitted)
    assert warnings == ["one: vectors <collapse> in stage 1"]
    said = " ".join(done.stdout.split())
    assert all(f"warning: {warning}" in said for warning in warnings)
    assert f"has no public_ground_truth.csv, so there is no score. submission: {submitted.paths.submission}" in said
    assert said.endswith(f"report: {submitted.paths.report_page}")
    assert not submitted.paths.scores.exists() and not submitted.paths.details.exists()
    page = submitted.paths.report_page.read_text()
    assert "No score: there is no ground truth" in page and "<title>run: no ground truth, no score</title>" in page
    for part in (
        "vectors &lt;collapse&gt; in stage 1", "training of one", "04_normalize",
        "query: 1 of 15 images could not be read, the first is &#39;Q000003&#39;", "direction_neighbours: 10",
    ):  # fmt: skip
        assert part in page, part
    assert not re.search("recall at|true pairs|Every step|False alarms|bootstrap", page)
    listed = read_matches(submitted.paths.matches)
    best = [pair for pair in listed if pair[0] != "Q000003"]
    assert len(best) < len(listed)  # so few that pairs of unreadable ones fill up
    pairs = re.findall(r"query<br>(Q\d+)</figcaption>.*?reference<br>(R\d+)<br><b>score −([\d.]+)</b>", page, re.DOTALL)
    assert pairs == [(query, reference, f"{-score:.3f}") for query, reference, score in best] and len(pairs) == 14 * 6
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


def test_missing_pairs_are_named_and_a_torn_manifest_is_no_step(submitted: Run, tmp_path: Path, run_command: RunCommand) -> None:
    kept = submitted.paths.matches.rename(tmp_path / "matches.csv")
    done = run_command(tmp_path, "06_score", "--run", submitted.folder)
    shutil.move(kept, submitted.paths.matches)
    assert done.returncode == 2 and "matches.csv is missing: step 05_submit has not been done" in done.stderr
    record = json.dumps({"seconds": 1.5, "code": "abc"})
    for name in ("00_augment", "01_train one", "06_score", ".06_score.json.host-1-x.part", ".02_embed.json.host-1-x.part"):
        (tmp_path / f"{name}.json").write_text(record)
    assert [step.step for step in read_steps(tmp_path)[0]] == ["00_augment", "01_train one"]
