"""The report: whole, self-contained, and safe with ids that hold HTML."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.submissions.report.inputs import Distribution, ReportInputs, StepDone, check_output_folder
from image_copies.submissions.report.page import write_report
from image_copies.submissions.scoring.metrics import Interval, evaluate, score_queries
from image_copies.submissions.vectors.files import Vectors


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> ReportInputs:
    folder = tmp_path_factory.mktemp("inputs")
    ids = {"Q": [f"Q{i}" for i in range(8)], "R": [f"R{i}" for i in range(8)]}
    ids["Q"][0] = "Q<script>alert(1)</script>"
    sets = {}
    for kind, names in ids.items():
        paths = []
        for number, _ in enumerate(names):
            path = folder / f"{kind}{number}.png"
            Image.fromarray(np.random.default_rng(number).integers(0, 255, (300, 400, 3), dtype=np.uint8)).save(path)
            paths.append(path)
        sets[kind] = ImageSet(names, paths)
    (folder / "R7.png").write_bytes(b"no image")
    rng = np.random.default_rng(0)
    references = rng.standard_normal((8, 4)).astype(np.float32)
    queries = references + 0.8 * rng.standard_normal((8, 4)).astype(np.float32)
    truth = GroundTruth(ids["Q"], frozenset(zip(ids["Q"][:5], ids["R"][:5], strict=True)))
    plain = np.zeros(8, bool)
    scores, ranked = evaluate(Vectors(ids["Q"], queries, plain), Vectors(ids["R"], references, plain), truth)
    (folder / "edits.csv").write_text("query_id,edits\nQ1,crop blur\nQ2,crop\n")
    return ReportInputs(
        title="a <b>bold</b> run",
        variants=[{"name": "ensemble & more", "submitted": True} | scores.as_dict()],
        scores=scores.as_dict(),
        interval=Interval(0.5, 0.4, 0.6),
        ranked=ranked,
        ground_truth=truth,
        queries=sets["Q"],
        references=sets["R"],
        edits_file=folder / "edits.csv",
        recipe="seed: 0  # <i>",
        code="abc",
        distributions=[
            Distribution(
                title, score_queries(Vectors(ids["Q"], queries, plain), Vectors(ids["R"], references, plain), truth), -1.0
            )
            for title in ("before normalisation", "after normalisation")
        ],
        curves={"net <b>$1$": pd.DataFrame({"stage": [1, 2], "loss": [3.0, 2.0]}), "untrained": pd.DataFrame()},
        steps=[StepDone("01_train-net", 1.5, "abc <i>")],
        versions={"Python": "3.11"},
        warnings=["the submission is <weak>"],
        synthetic=[
            {
                "kind": "baseline",
                "name": "grey",
                "micro_average_precision": 0.4,
                "learnt_families": 0.5,
                "left_out_families": 0.3,
                "family_warp": 0.25,
            },
            {
                "kind": "submitted",
                "name": "submitted",
                "micro_average_precision": 0.2,
                "learnt_families": 0.2,
                "left_out_families": 0.2,
                "family_warp": 0.15,
            },
        ],
    )


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of these inputs; tests only read it."""
    return write_report(inputs, tmp_path_factory.mktemp("page") / "report")


def test_warnings_and_the_synthetic_queries_stand_on_the_page(inputs: ReportInputs, page: Path, tmp_path: Path) -> None:
    html = page.read_text()
    assert "<b>Warning:</b> the submission is &lt;weak&gt;" in html
    assert "<td>baseline: grey</td><td>0.400</td><td>0.500</td><td>0.300</td><td>0.250</td>" in html
    assert '<tr class="submitted"><td>submitted</td><td>0.200</td>' in html and "<th>left-out families</th><th>warp</th>" in html
    plain = write_report(replace(inputs, warnings=[], synthetic=[]), tmp_path / "plain").read_text()
    assert "Warning" not in plain and "synthetic queries</h2>" not in plain


def test_page_is_whole_and_every_picture_exists(page: Path) -> None:
    html = page.read_text()
    assert "<script" not in html and "<b>bold" not in html and "<b>$1" not in html and "<i>" not in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    pictures = re.findall(r'src="([^"]+)"', html)
    assert pictures and all((page.parent / name).is_file() for name in pictures)
    assert all('loading="lazy"' in tag for tag in re.findall(r"<img[^>]*>", html))
    assert "ensemble &amp; more" in html and "Recall by edit" in html
    for section in ("Found copies", "Hardest misses", "Most confident false alarms"):
        assert section in html
    for chart in ("µAP of every step", "precision over recall", "after normalisation", "training of net"):
        assert f'aria-label="{chart}' in html or f'scores, {chart}"' in html
    assert html.count("<svg") == 5 and "Python 3.11" in html and "01_train-net" in html
    for path in page.parent.rglob("*.jpg"):
        with Image.open(path) as picture:
            assert max(picture.size) <= 200


def test_without_90_percent_precision_no_threshold_is_spoken_of(inputs: ReportInputs, page: Path, tmp_path: Path) -> None:
    low = replace(
        inputs,
        ranked=replace(inputs.ranked, precision=np.minimum(inputs.ranked.precision, 0.8)),
        distributions=[replace(one, threshold=None) for one in inputs.distributions],
    )
    html = write_report(low, tmp_path / "low").read_text()
    assert "precision never reaches 90 %" in html and "dashed line" not in html
    assert "precision never reaches" not in page.read_text()


def test_a_page_takes_the_place_of_a_page_only(inputs: ReportInputs, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "new", tmp_path / "empty"):
        check_output_folder(place, "--report")
    for _ in range(2):
        write_report(inputs, tmp_path / "new")
        check_output_folder(tmp_path / "new", "--report")
        assert not (tmp_path / "new" / "old.txt").exists()
        (tmp_path / "new" / "old.txt").touch()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<h1>My own pages</h1>")
    (tmp_path / "edits.csv").write_text("query_id,edits\n")
    for place in (tmp_path, tmp_path / "site", tmp_path / "edits.csv"):
        with pytest.raises(UserError, match=r"left alone\. Choose another --report"):
            check_output_folder(place, "--report")
