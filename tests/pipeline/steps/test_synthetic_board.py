"""What the submission must beat, on the synthetic queries alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from image_copies.augmentations.query_set import read_families
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.pipeline.run.run import assign_training_roles, open_existing_run
from image_copies.pipeline.steps.augment import family_truths, synthetic_truths
from image_copies.pipeline.steps.definitions import AUGMENT, EMBED, ENSEMBLE, run_step
from image_copies.pipeline.steps.score_table import (
    collect_warnings,
    find_warnings,
    print_scores,
    print_unscored,
    read_synthetic_board,
)
from image_copies.submissions.ensemble.variant import LEARNT_FAMILIES, LEFT_OUT_FAMILIES, MEAN, ONE_FAMILY, read_choice
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import read_vectors


def test_both_halves_of_the_queries_are_scored_for_all_that_competes(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    recipe = (folder / "recipe.yaml").read_text().replace("intensity: 0.3}", "intensity: 0.3}, left_out: [warp, noise]")
    (folder / "recipe.yaml").write_text(recipe)
    run = open_existing_run(folder)
    assert synthetic_truths(run.paths, run.recipe.queries.left_out)[1] is None  # the queries are still those of before
    for step in (AUGMENT, EMBED, ENSEMBLE):
        run_step(run, step)
    learnt, left_out = synthetic_truths(run.paths, run.recipe.queries.left_out)
    whole = read_ground_truth(run.paths.query_ground_truth)
    assert left_out is not None and (len(learnt.pairs), len(left_out.pairs)) == (15, 15)
    assert sorted(learnt.query_ids + left_out.query_ids) == sorted(whole.query_ids)
    families, copies = family_truths(run.paths, run.recipe.queries.left_out), {query for query, _ in left_out.pairs}
    edited_by = read_families(run.paths.query_records)
    assert [len(families[name].pairs) for name in ("warp", "noise")] == [8, 7] and len(families) == 2  # alternating
    for name, truth in families.items():  # its copies among all that copy nothing
        assert all(edited_by[query] & {"warp", "noise"} == {name} for query, _ in truth.pairs) and truth.pairs < left_out.pairs
        assert set(truth.query_ids) - {query for query, _ in truth.pairs} == set(left_out.query_ids) - copies
        assert len(truth.query_ids) == len(truth.pairs) + 15
    board = read_synthetic_board(run.paths.synthetic_board).set_index("name")
    normalized = {"ensemble", "method 1 (β 2)", "method 2 (β 1.8)"}
    assert set(board.index) == {"whitened grey pixels", "Gabor energies", "one", "submitted"} | normalized
    np.testing.assert_allclose(board[MEAN], (board[LEARNT_FAMILIES] + board[LEFT_OUT_FAMILIES]) / 2)
    training, synthetic = (read_vectors(run.paths.embeddings("one", part)) for part in ("training", "synthetic"))
    referred = sorted({reference for _, reference in whole.pairs})
    assert set(referred) <= set(training.ids)
    of_learnt = dict(zip(board.index, board[LEARNT_FAMILIES].tolist(), strict=True))
    assert (
        np.isnan(read_choice(run.paths.choice)[1][MEAN][0]) and 0 < of_learnt["submitted"] <= 1
    )  # nothing to choose, yet measured
    of_family = board[[f"{ONE_FAMILY}{name}" for name in families]]
    assert ((of_family > 0) & (of_family <= 1)).all(axis=None)
    scores = board.drop(columns="kind").to_dict("index")
    assert scores["submitted"] == scores["method 2 (β 1.8)"] != scores["ensemble"]  # the recipe's only method
    searched = training.rows(sorted(assign_training_roles(run).references.ids))
    for name, truth in families.items():
        expected = evaluate(synthetic, searched, truth)[0].micro_average_precision
        assert board.loc["one", f"{ONE_FAMILY}{name}"] == pytest.approx(expected)
    assert 0 < evaluate(synthetic, training, learnt)[0].micro_average_precision <= of_learnt["one"]  # among more images
    told = capsys.readouterr().out
    warnings = collect_warnings(run)  # an untrained network
    assert warnings and all(f"  warning: {warning}" in told for warning in warnings) and "without any training" in warnings[0]
    records = run.paths.query_records.read_text().splitlines()  # runs made before families took turns mix them in a query
    mixed = {next(iter(families["warp"].pairs))[0], next(iter(families["noise"].pairs))[0]}
    first, second = (json.loads(line) for line in records if json.loads(line)["query_id"] in mixed)
    first["record"] += second["record"]
    run.paths.query_records.write_text("\n".join([*records, json.dumps(first)]))  # the last line of a query counts
    assert sum(len(truth.pairs) for truth in family_truths(run.paths, run.recipe.queries.left_out).values()) == 14
    (tmp_path / "scores.json").write_text(
        json.dumps(
            {
                "queries": 1, "references": 1, "true_pairs": 1, "variants": [], "warnings": warnings,
                "synthetic": board.reset_index().to_dict("records"),
            }
        )
    )  # fmt: skip
    print_scores(tmp_path / "scores.json")
    printed = capsys.readouterr().out
    assert (
        "left-out" in printed and "┃  warp ┃" in printed and "baseline: Gabor energies" in printed and "warning: the" in printed
    )


def test_a_left_out_family_without_edits_is_refused_by_step_00(small_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    recipe = (folder / "recipe.yaml").read_text().replace("intensity: 0.3}", "intensity: 0.3}, left_out: [warp, policy]")
    (folder / "recipe.yaml").write_text(recipe)
    with pytest.raises(UserError, match=r"queries\.left_out names 'policy', of which no table has an edit"):
        run_step(open_existing_run(folder), AUGMENT)


def test_left_out_baselines_are_said_in_the_log_and_in_the_table(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    (folder / "recipe.yaml").write_text((folder / "recipe.yaml").read_text() + "baselines: false\n")
    run = open_existing_run(folder)
    run_step(run, ENSEMBLE)
    assert "whitened grey pixels and Gabor energies are not scored (baselines: false)" in capsys.readouterr().out
    board = read_synthetic_board(run.paths.synthetic_board).to_dict("records")
    print_unscored(board, [])
    assert "no baselines on the synthetic queries (baselines: false?)" in capsys.readouterr().out
    print_unscored([*board, {"kind": "baseline", "name": "pixels", MEAN: 0.1}], [])
    assert "no baselines" not in capsys.readouterr().out


def test_what_is_below_a_baseline_and_a_submission_below_a_model_are_warned_of() -> None:
    rows = [("baseline", "grey", 0.3), ("baseline", "gabor", 0.4), ("model", "weak", 0.35), ("model", "good", 0.5)]
    board = pd.DataFrame([*rows, ("submitted", "submitted", 0.39)], columns=["kind", "name", MEAN])
    first, second = find_warnings(board)
    assert first.startswith("the submission has a µAP of 0.390 on the synthetic queries, less than the model good alone (0.500)")
    assert "eigen_power 0.0" in first
    assert second.startswith("the model weak has a µAP of 0.350") and "weights" in second
    assert find_warnings(board[board["kind"] != "baseline"]) == [first]
    (third, _) = find_warnings(board[board["name"] != "good"])
    assert third.startswith("the submission") and "less than gabor without any training (0.400)" in third
