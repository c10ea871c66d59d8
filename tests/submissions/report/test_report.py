"""The page of the report: whole, self-contained, and safe with ids that hold HTML."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.report.charts import draw_training
from image_copies.submissions.report.gallery import Card, draw_false_alarms, draw_found_copies, draw_missed_copies
from image_copies.submissions.report.inputs import ReportInputs, check_output_folder
from image_copies.submissions.report.page import write_report
from image_copies.submissions.scoring.metrics import RankedPairs
from tests.reports import make_inputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> ReportInputs:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of these inputs; tests only read it."""
    return write_report(inputs, tmp_path_factory.mktemp("page") / "report")


def test_warnings_and_the_synthetic_queries_stand_on_the_page(inputs: ReportInputs, page: Path, tmp_path: Path) -> None:
    html = page.read_text()
    assert "<b>Warning:</b> the submission is &lt;weak&gt;" in html
    assert "was chosen: µAP 0.400, left-out families 0.300." in html
    plain = write_report(replace(inputs, warnings=[], synthetic={}), tmp_path / "plain").read_text()
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
    for chart in ("precision over recall", "training of net"):
        assert f'aria-label="{chart}' in html
    assert html.count("<svg") == 2 and "Python 3.11" in html and "01_train-net" in html
    for path in page.parent.rglob("*.jpg"):
        with Image.open(path) as picture:
            assert max(picture.size) <= 200


def test_without_90_percent_precision_no_threshold_is_spoken_of(inputs: ReportInputs, page: Path, tmp_path: Path) -> None:
    low = replace(inputs, ranked=replace(inputs.ranked, precision=np.minimum(inputs.ranked.precision, 0.8)))
    html = write_report(low, tmp_path / "low").read_text()
    assert "precision never reaches 90 %" in html
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


FIVE = GroundTruth(["Q1", "Q2", "Q3", "Q4", "Q5"], frozenset({("Q1", "R1"), ("Q2", "R2"), ("Q3", "R3"), ("Q4", "R4")}))
RANKED = [("Q1", "R1", 0.1, True), ("Q5", "R9", 0.2, False), ("Q2", "R8", 0.3, False), ("Q2", "R2", 0.4, True)]
EDITED = {"Q2": "crop blur"}


def ranked_by_hand() -> RankedPairs:
    queries, references, distances, true = zip(*RANKED, strict=True)
    found = np.cumsum(true)
    precision = found / np.arange(1, len(RANKED) + 1)
    return RankedPairs(list(queries), list(references), np.array(distances), np.array(true), precision, found / len(FIVE.pairs))


def list_pictures(cards: list[Card]) -> list[list[tuple[str, str, str]]]:
    return [[(picture.image_id, picture.label, picture.note) for picture in card.pictures] for card in cards]


def test_misses_false_alarms_and_found_copies_are_shown_in_their_order() -> None:
    cards = draw_missed_copies(ranked_by_hand(), FIVE, EDITED)
    assert list_pictures(cards) == [
        [("Q3", "query", ""), ("R3", "true", "")],
        [("Q4", "query", ""), ("R4", "true", "")],
        [("Q2", "query", ""), ("R2", "true", "score −0.400"), ("R8", "ranked above it", "score −0.300")],
    ]
    assert [card.text for card in cards] == ["not among the ranked pairs", "not among the ranked pairs", "rank 4"]
    assert cards[2].edits == "crop blur"
    cards = draw_false_alarms(ranked_by_hand(), FIVE, EDITED)
    assert [card.text for card in cards] == ["rank 2; the query copies nothing", "rank 3; another reference is right"]
    assert list_pictures(cards)[1][2] == ("R2", "true reference", "")
    assert [card.pictures[1].image_id for card in draw_found_copies(ranked_by_hand(), EDITED)] == ["R1"]


CURVE = pd.DataFrame(
    {
        "stage": [1, 1, 2],
        "classes": [300, 300, 700],
        "a_new_figure": [30.0, 29.0, 28.0],
        "loss": [20.0, 10.0, 15.0],
        "validation": [None, 0.2, 0.4],
        "mean_cosine": [None, 0.3, 0.2],
        "effective_rank": [None, 20.5, None],
        "ended_by": [None, "loss", "plateau"],
    }
)


def test_the_starts_of_stages_are_marked_and_names_are_no_markup() -> None:
    one, two = (draw_training("net", part).count("stroke-dasharray") for part in (CURVE[:2], CURVE))
    assert two > one
    assert "<svg" in draw_training("net", CURVE.assign(loss=None, validation=None))
    assert "<img" not in draw_training('<img src=x onerror="alert(1)"> $x$', CURVE)
