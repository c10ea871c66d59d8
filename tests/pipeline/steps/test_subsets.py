"""06_score.py --subsets: single models and ensembles of any of them."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from image_copies.data.errors import UserError
from image_copies.data.layout import GROUND_TRUTH, QUERY, REFERENCE, TRAINING
from image_copies.pipeline.run.run import Run, open_run
from image_copies.pipeline.steps.subsets import score_subsets
from image_copies.submissions.ensemble.variant import Variant, tabulate_variant, write_choice
from image_copies.submissions.vectors.files import write_vectors

RECIPE = "models:\n" + "".join(
    f"  {name}: {{descriptor: {{backbone: test_efficientnet, dimensions: 8}}, stages: [{{image_size: 32}}]}}\n"
    for name in ("good", "fair", "noise")
)
SPREAD = {"good": 0.2, "fair": 0.7, "noise": 50.0}  # of what is added to a copy's vector


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """40 references, 20 queries that copy the first ones and 20 that copy nothing; three models of different strength."""
    rng = np.random.default_rng(0)
    parts = {TRAINING: ("T", 60), REFERENCE: ("R", 40), QUERY: ("Q", 40)}
    ids = {name: [f"{prefix}{number:06d}" for number in range(count)] for name, (prefix, count) in parts.items()}
    for name, images in ids.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        for image_id in images:
            (tmp_path / "data" / name / f"{image_id}.jpg").touch()
    pairs = {"query_id": ids[QUERY], "reference_id": [*ids[REFERENCE][:20], *[""] * 20]}
    pd.DataFrame(pairs).to_csv(tmp_path / "data" / GROUND_TRUTH, index=False)
    (tmp_path / "mine.yaml").write_text(RECIPE)
    run = open_run(tmp_path / "run", tmp_path / "mine.yaml", tmp_path / "data")
    for model, spread in SPREAD.items():
        references = rng.normal(size=(40, 8))
        copies = references[:20] + spread * rng.normal(size=(20, 8))
        sets = {"training": (TRAINING, rng.normal(size=(60, 8))), "reference": (REFERENCE, references)}
        sets["query"] = (QUERY, np.concatenate([copies, rng.normal(size=(20, 8))]))
        for part, (name, vectors) in sets.items():
            unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
            run.paths.embeddings(model, part).parent.mkdir(parents=True, exist_ok=True)
            write_vectors(run.paths.embeddings(model, part), ids[name], [unit])
    variant = Variant(16, 0.0, "method1", 1.0)
    run.paths.ensemble.mkdir(parents=True, exist_ok=True)
    write_choice(run.paths.choice, pd.DataFrame([tabulate_variant(variant)]))
    return run


def test_every_subset_is_scored_and_members_add_up(run: Run) -> None:
    rows = {row.models: row for row in score_subsets(run)}
    assert len(rows) == 7 and list(rows)[:3] == [("good",), ("fair",), ("noise",)]
    score = {models: row.plain.micro_average_precision for models, row in rows.items()}
    assert score["good",] > score["fair",] > score["noise",]
    assert score["good", "fair"] > score["fair",] and score["good", "noise"] < score["good",]
    assert any(row.normalized.micro_average_precision != row.plain.micro_average_precision for row in rows.values())


def test_the_command_prints_them(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for model in SPREAD:
        source = run.paths.embeddings(model, "training")
        run.paths.embeddings(model, "synthetic").write_bytes(source.read_bytes())
    script = str(Path(__file__).parents[3] / "pipeline" / "06_score.py")
    monkeypatch.setattr("sys.argv", [script, "--run", str(run.folder), "--subsets"])
    runpy.run_path(script, run_name="__main__")
    printed = capsys.readouterr().out
    assert "good + fair + noise" in printed and "method 1" in printed


def test_without_a_ground_truth_there_is_nothing_to_score_by(run: Run) -> None:
    (run.data / GROUND_TRUTH).unlink()
    with pytest.raises(UserError, match="subsets of models cannot be scored"):
        next(score_subsets(run))
