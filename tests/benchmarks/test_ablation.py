"""The benchmarks of ablation, kinds and quality: what is changed, tables of kept results."""

import json
from pathlib import Path

import ablation
import kinds
import numpy as np
import pandas as pd
import pytest
import quality
from measurements import Measurements
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.models.training.model_settings import ModelSettings
from image_copies.submissions.vectors.files import Vectors


def test_every_training_of_the_ablation_is_valid_and_sees_as_many_images() -> None:
    for name, change in ablation.list_trainings().items():
        model = ablation.describe_base()
        change(model)
        settings = ModelSettings.model_validate(model)
        assert sum(stage["epochs"] * stage["iterations"] for stage in model["stages"]) == ablation.STEPS, name
        assert (model == ablation.describe_base()) == (name == "as it is"), name
        assert {stage.batch_size for stage in settings.stages} == {64}, name


def test_every_training_that_can_be_repeated_is_kept() -> None:
    kept = Measurements.open(ablation.RESULTS).measurements
    assert {entry["name"] for entry in kept if entry["about"].get("part") == "training"} == set(ablation.list_trainings())


def test_scores_and_recall_by_edit(tmp_path: Path) -> None:
    references = Vectors(["R0", "R1"], np.eye(2, dtype=np.float32), np.zeros(2, bool))
    queries = Vectors(["Q0", "Q1"], np.eye(2, dtype=np.float32)[::-1].copy(), np.zeros(2, bool))
    (tmp_path / "edits.csv").write_text("query_id,edits\nQ0,crop flip\nQ1,crop\n", encoding="utf-8")
    truth = GroundTruth(["Q0", "Q1"], frozenset({("Q0", "R1"), ("Q1", "R1")}))  # the second is nearest to the wrong one
    found = quality.count_by_edit(tmp_path / "edits.csv", queries, references, truth, 0.5)
    found |= quality.score_queries("raw", queries, references, truth)
    assert found["wrong"] == 1 and found["any: copies"] == 2 and found["raw R@1"] == 0.5
    store = Measurements.open(tmp_path / "quality.json")
    store.measure(quality.SHIPS, {"set": "photos"}, range(2), lambda seed: found | {"raw µAP": 0.5 + seed / 10})
    store.measure("baselines", {"set": "photos"}, [0], lambda seed: {"grey pixels": 0.25})
    tables = quality.make_tables(Measurements.open(store.path))
    assert tables["model_card.md"].splitlines()[2:] == [
        "| photos | any | 2 | 0.50 | 0.50 |",
        "| photos | edits: 1 | 1 | 0.00 | 0.00 |",
        "| photos | edits: 2 | 1 | 1.00 | 1.00 |",
        "| photos | crop | 2 | 0.50 | 0.50 |",
        "| photos | flip | 1 | 1.00 | 1.00 |",
    ]
    assert tables["quality.md"].splitlines()[2:] == [
        f"| photos | what ships | 0.550 ± 0.071 (2 seeds) |  | {found['raw R@P90']:.3f} ± 0.000 (2 seeds) | "
        "0.500 ± 0.000 (2 seeds) |",
        "| photos | grey pixels | 0.250 |  |  |  |",
    ]
    kept = json.loads(store.path.read_text(encoding="utf-8"))["measurements"]
    assert all(entry["commit"] and entry["machine"].endswith(" cores") for entry in kept)


def test_a_set_of_kinds_has_copies_of_every_eighth_picture(tmp_path: Path) -> None:
    (tmp_path / "pictures" / "training_images").mkdir(parents=True)
    rows = ["file\trepository"]
    for number in range(12):
        name = f"G{number:05d}.png"
        repository = "openstax/osbooks-astronomy" if number < 8 else "MicrosoftDocs/windows-driver-docs"
        Image.fromarray(np.full((40, 40, 3), 20 * number, np.uint8)).save(tmp_path / "pictures" / "training_images" / name)
        rows.append(f"{name}\t{repository}")
    (tmp_path / "pictures" / "SOURCES.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    kinds.make_kinds(tmp_path / "pictures", tmp_path / "kinds", 8)
    folder = open_isc_folder(tmp_path / "kinds")
    assert folder.reference.ids == ["G00000", "G00008"] and len(folder.training) == 10
    own = dict(read_ground_truth(tmp_path / "kinds" / "public_ground_truth.csv").pairs)
    listed = pd.read_csv(tmp_path / "kinds" / "query_edits.csv")
    assert len(own) == 2 * kinds.COPIES == len(folder.query)
    assert {own[query]: kind for query, kind in zip(listed["query_id"], listed["edits"], strict=True)} == {
        "G00000": "drawings",
        "G00008": "screens",
    }
    assert kinds.read_kinds(tmp_path / "pictures" / "SOURCES.tsv")["G00001.png"] == "textbooks"
    with pytest.raises(UserError, match="Name a new folder"):
        kinds.make_kinds(tmp_path / "pictures", tmp_path / "kinds", 8)
    (tmp_path / "pictures" / "SOURCES.tsv").write_text("\n".join(rows[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"lacks 1 pictures .*G00011\.png"):
        kinds.make_kinds(tmp_path / "pictures", tmp_path / "again", 8)
    (tmp_path / "pictures" / "SOURCES.tsv").unlink()
    with pytest.raises(UserError, match="no such file"):
        kinds.make_kinds(tmp_path / "pictures", tmp_path / "again", 8)
