"""Two rankings compared: the parts add up to the difference, won and lost are what they say, the page is whole."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.submissions.report.inputs import ComparisonInputs, Side
from image_copies.submissions.report.page import write_comparison
from image_copies.submissions.scoring.breakdown import (
    compare_pairs,
    compare_recall_by_edit,
    format_changes,
    list_lost_copies,
    list_new_false_alarms,
    list_won_copies,
)
from image_copies.submissions.scoring.metrics import Interval, RankedPairs, Scores, average_precision, recall_at_precision

TRUTH = GroundTruth([f"Q{i}" for i in range(6)], frozenset((f"Q{i}", f"R{i}") for i in range(4)))


def ranking(pairs: list[tuple[int, int]]) -> RankedPairs:
    """Pairs (query, reference) as they rank; the squared distance is the rank."""
    true = np.array([(f"Q{q}", f"R{r}") in TRUTH.pairs for q, r in pairs], dtype=bool)
    found, ranks = np.cumsum(true), np.arange(1, len(pairs) + 1)
    return RankedPairs(
        [f"Q{q}" for q, _ in pairs], [f"R{r}" for _, r in pairs], ranks.astype(np.float64), true, found / ranks, found / 4
    )


FIRST = ranking([(0, 0), (1, 1), (4, 2), (3, 3)])
SECOND = ranking([(0, 0), (2, 2), (3, 3), (5, 5), (1, 1)])
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, min_size=1, max_size=20)


@settings(deadline=None)
@given(PAIRS, PAIRS)
def test_the_gains_add_up_to_the_difference(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    first, second = ranking(before), ranking(after)
    changes = compare_pairs(first, second, TRUTH)
    assert sum(change.gain for change in changes) == pytest.approx(average_precision(second) - average_precision(first))
    assert [change.gain for change in changes] == sorted((change.gain for change in changes), reverse=True)
    gained = recall_at_precision(second, 0.9) - recall_at_precision(first, 0.9)
    assert (len(list_won_copies(changes)) - len(list_lost_copies(changes))) / 4 == pytest.approx(gained)


def test_won_and_lost_are_told_at_90_percent_precision() -> None:
    changes = compare_pairs(FIRST, SECOND, TRUTH)
    assert {change.query_id for change in list_won_copies(changes)} == {"Q2", "Q3"}
    assert [change.query_id for change in list_lost_copies(changes)] == ["Q1"]
    change = list_lost_copies(changes)[0]
    assert (change.first.rank, change.second.rank, change.first.score) == (2, 5, -2.0)


def test_new_false_alarms_are_those_above_the_point_in_one_only() -> None:
    true = [(0, 0), (1, 1), (2, 2), (3, 3)]
    many = GroundTruth([f"Q{i}" for i in range(20)], frozenset((f"Q{i}", f"R{i}") for i in range(20)))
    pairs = [*((i, i) for i in range(10)), (0, 1), *((i, i) for i in range(10, 20))]
    names = [(f"Q{q}", f"R{r}") for q, r in pairs]
    flags = np.array([name in many.pairs for name in names])
    found, ranks = np.cumsum(flags), np.arange(1, 22)
    second = RankedPairs([q for q, _ in names], [r for _, r in names], ranks.astype(np.float64), flags, found / ranks, found / 20)
    assert list_new_false_alarms(ranking(true), second) == [10]
    assert list_new_false_alarms(second, second) == []


def test_recall_by_edit_puts_both_side_by_side() -> None:
    table = compare_recall_by_edit(FIRST, SECOND, TRUTH, {"Q0": ["crop"], "Q1": ["blur"], "Q2": ["crop"], "Q3": ["crop"]})
    assert table.values.tolist() == [["crop", 3, pytest.approx(1 / 3), 1.0], ["blur", 1, 1.0, 0.0]]


def test_every_copy_is_listed(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(format_changes(compare_pairs(FIRST, SECOND, TRUTH)))
    table = pd.read_csv(tmp_path / "pairs.csv", index_col="query_id")
    assert sorted(table.index) == ["Q0", "Q1", "Q2", "Q3"]
    assert table["first_rank"].isna()["Q2"] and table["second_rank"]["Q2"] == 2
    assert table["gain"].sum() == pytest.approx(average_precision(SECOND) - average_precision(FIRST))


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
