"""The pages of report and comparison: whole, self-contained, and safe with ids that hold HTML."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.submissions.report.charts import draw_training, list_stages
from image_copies.submissions.report.gallery import Card, draw_false_alarms, draw_found_copies, draw_missed_copies
from image_copies.submissions.report.inputs import (
    ComparisonInputs,
    ReportInputs,
    Side,
    check_output_folder,
)
from image_copies.submissions.report.page import write_comparison, write_report
from image_copies.submissions.scoring.breakdown import (
    compare_pairs,
    compare_recall_by_edit,
    format_changes,
    list_lost_copies,
    list_new_false_alarms,
    list_won_copies,
)
from image_copies.submissions.scoring.metrics import (
    Interval,
    QueryScores,
    RankedPairs,
    Scores,
    average_precision,
    recall_at_precision,
)
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
    scores = QueryScores(true={("Q3", "R3"): -2.0}, best_wrong={"Q3": ("R7", -3.0)})
    cards = draw_missed_copies(ranked_by_hand(), FIVE, scores, EDITED)
    assert list_pictures(cards) == [
        [("Q4", "query", ""), ("R4", "true", "")],
        [("Q3", "query", ""), ("R3", "true", "score −2.000"), ("R7", "nearest wrong", "score −3.000")],
        [("Q2", "query", ""), ("R2", "true", "score −0.400"), ("R8", "ranked above it", "score −0.300")],
    ]
    assert [card.text for card in cards] == ["not among the ranked pairs", "not among the ranked pairs", "rank 4"]
    assert cards[2].edits == "crop blur"
    cards = draw_false_alarms(ranked_by_hand(), FIVE, QueryScores(), EDITED)
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


def test_stages_are_read_by_name_and_their_starts_marked() -> None:
    first, second = list_stages(CURVE)
    assert (first.stage, first.epochs, first.settings, first.loss, first.validation, first.ended_by) == (
        1, 2, {"classes": 300.0}, 10.0, 0.2, "loss",
    )  # fmt: skip
    assert (first.cosine, first.rank, second.cosine, second.rank) == (0.3, 20.5, 0.2, None)
    assert (second.epochs, second.loss, second.validation, second.ended_by) == (1, 15.0, 0.4, "plateau")
    one, two = (draw_training("net", part).count("stroke-dasharray") for part in (CURVE[:2], CURVE))
    assert two > one
    broken = CURVE.assign(loss=["nan", "inf", "oops"], validation=None)
    assert list_stages(broken)[0].loss is None and "<svg" in draw_training("net", broken)
    chart = draw_training('<img src=x onerror="alert(1)"> $x$', CURVE)
    assert "<img" not in chart


@pytest.mark.parametrize(
    "missing", [["stage"], ["loss"], ["validation"], ["loss", "validation"], ["stage", "ended_by", "classes"]]
)
def test_columns_may_be_missing(missing: list[str]) -> None:
    part = CURVE.drop(columns=missing)
    assert "<svg" in draw_training("net", part)
    assert sum(stage.epochs for stage in list_stages(part)) == 3


TRUTH = GroundTruth([f"Q{i}" for i in range(6)], frozenset((f"Q{i}", f"R{i}") for i in range(4)))


def rank(pairs: list[tuple[int, int]]) -> RankedPairs:
    """Pairs (query, reference) as they rank; the squared distance is the rank."""
    true = np.array([(f"Q{q}", f"R{r}") in TRUTH.pairs for q, r in pairs], dtype=bool)
    found, ranks = np.cumsum(true), np.arange(1, len(pairs) + 1)
    return RankedPairs(
        [f"Q{q}" for q, _ in pairs], [f"R{r}" for _, r in pairs], ranks.astype(np.float64), true, found / ranks, found / 4
    )


FIRST = rank([(0, 0), (1, 1), (4, 2), (3, 3)])
SECOND = rank([(0, 0), (2, 2), (3, 3), (5, 5), (1, 1)])
DRAWN = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, min_size=1, max_size=20)


@settings(deadline=None)
@given(DRAWN, DRAWN)
def test_the_gains_add_up_to_the_difference(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    first, second = rank(before), rank(after)
    changes = compare_pairs(first, second, TRUTH)
    assert sum(change.gain for change in changes) == pytest.approx(average_precision(second) - average_precision(first))
    assert [change.gain for change in changes] == sorted((change.gain for change in changes), reverse=True)
    gained = recall_at_precision(second, 0.9) - recall_at_precision(first, 0.9)
    assert (len(list_won_copies(changes)) - len(list_lost_copies(changes))) / 4 == pytest.approx(gained)


def test_won_and_lost_are_told_at_90_percent_precision_and_every_copy_is_listed(tmp_path: Path) -> None:
    changes = compare_pairs(FIRST, SECOND, TRUTH)
    assert {change.query_id for change in list_won_copies(changes)} == {"Q2", "Q3"}
    assert [change.query_id for change in list_lost_copies(changes)] == ["Q1"]
    change = list_lost_copies(changes)[0]
    assert (change.first.rank, change.second.rank, change.first.score) == (2, 5, -2.0)
    table = compare_recall_by_edit(FIRST, SECOND, TRUTH, {"Q0": ["crop"], "Q1": ["blur"], "Q2": ["crop"], "Q3": ["crop"]})
    assert table.values.tolist() == [["crop", 3, pytest.approx(1 / 3), 1.0], ["blur", 1, 1.0, 0.0]]
    (tmp_path / "pairs.csv").write_text(format_changes(compare_pairs(FIRST, SECOND, TRUTH)))
    table = pd.read_csv(tmp_path / "pairs.csv", index_col="query_id")
    assert sorted(table.index) == ["Q0", "Q1", "Q2", "Q3"]
    assert table["first_rank"].isna()["Q2"] and table["second_rank"]["Q2"] == 2
    assert table["gain"].sum() == pytest.approx(average_precision(SECOND) - average_precision(FIRST))


def test_new_false_alarms_are_those_above_the_point_in_one_only() -> None:
    true = [(0, 0), (1, 1), (2, 2), (3, 3)]
    many = GroundTruth([f"Q{i}" for i in range(20)], frozenset((f"Q{i}", f"R{i}") for i in range(20)))
    pairs = [*((i, i) for i in range(10)), (0, 1), *((i, i) for i in range(10, 20))]
    names = [(f"Q{q}", f"R{r}") for q, r in pairs]
    flags = np.array([name in many.pairs for name in names])
    found, ranks = np.cumsum(flags), np.arange(1, 22)
    second = RankedPairs([q for q, _ in names], [r for _, r in names], ranks.astype(np.float64), flags, found / ranks, found / 20)
    assert list_new_false_alarms(rank(true), second) == [10]
    assert list_new_false_alarms(second, second) == []


def test_the_page_stands_without_pictures_and_escapes_names(tmp_path: Path) -> None:
    scores = Scores(0.5, 0.4, 0.3, 0.6, 6, 6, 4)
    old, new = (Side(name, scores, each, Interval(0.5, 0.4, 0.6)) for name, each in (("<b>old</b>", FIRST), ("new", SECOND)))
    (tmp_path / "edits.csv").write_text("query_id,edits\nQ1,crop <i>\n")
    nothing = ImageSet([], [])
    inputs = ComparisonInputs(old, new, Interval(0.1, -0.1, 0.2), TRUTH, nothing, nothing, tmp_path / "edits.csv")
    html = write_comparison(inputs, tmp_path / "page").read_text()
    assert "<b>old" not in html and "<i>" not in html and "&lt;b&gt;old" in html
    assert "no picture" in html and "may be chance" in html and (tmp_path / "page" / "pairs.csv").is_file()
    assert re.search(r'<b class="right">2</b>copies won', html) and re.search(r'<b class="wrong">1</b>copies lost', html)
