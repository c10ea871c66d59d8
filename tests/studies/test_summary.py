"""The machinery of the claims: verdicts, measurements that a stopped run goes on from, and their summary."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from measurements import Measurements
from page_tables import read_table
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.studies.claims.claim import Arm, Claim, Side, find_learnt
from image_copies.studies.claims.row import Difference, Row, compute_half_width
from image_copies.studies.claims.summary import (
    COMMAND,
    DOCUMENT,
    SUMMARY,
    TABLE,
    Summary,
    as_markdown,
    count_outcomes,
)
from image_copies.studies.measure_claims import measure_claim
from image_copies.studies.multigrain.tradeoff import collect_tradeoff, plot_tradeoff


def row(
    *differences: float,
    smallest: float = 0.02,
    learnt: tuple[float, float, str] | None = None,
    number: str = "2",
) -> Row:
    return Row(
        number,
        "it helps",
        "table 1",
        "shapes",
        "a, b",
        Difference.of(differences),
        smallest,
        learnt,
        cause="why",
    )


def empty_summary(folder: Path) -> Summary:
    path = folder / "summary.json"
    path.write_text('{"rows": []}')
    return Summary.open(path)


def test_the_interval_is_students() -> None:
    """2.776 is the quantile for five runs."""
    found = Difference.of([0.1, 0.2, 0.3, 0.4, 0.5])
    assert found.mean == pytest.approx(0.3) and found.margin == pytest.approx(2.776 * 0.025**0.5 / 5**0.5, rel=1e-3)
    assert Difference.between([0.3, 0.5], [0.1, 0.4]) == Difference.of([0.2, 0.1])
    assert compute_half_width(1.0, 1) == math.inf


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.1, 0.11, 0.12, 0.1, 0.09), "holds"),
        ((-0.1, -0.11, -0.12, -0.1, -0.09), "contradicted: why"),
        ((0.001, -0.001, 0.002, 0.001, 0.0), "no effect that matters"),
        ((0.019, 0.018, 0.019, 0.018, 0.019), "no effect that matters"),  # above zero, below what matters
        ((-0.008, -0.009, -0.007, -0.008, -0.008), "no effect that matters"),
        ((0.1, 0.11, 0.12), "undecided: 3 runs, at least 5 decide"),
        ((-0.1, -0.11, -0.12), "undecided: 3 runs, at least 5 decide"),
    ],
)
def test_a_row_is_decided_by_its_interval_and_the_least_effect(differences: tuple[float, ...], verdict: str) -> None:
    assert row(*differences).verdict == verdict


@pytest.mark.parametrize("differences", [(0.02, 0.03, 0.01, 0.03, 0.02), (-0.02, -0.03, -0.01, -0.03, -0.02)])
def test_an_interval_around_the_least_effect_decides_nothing(differences: tuple[float, ...]) -> None:
    """Away from zero, but neither surely as large as what matters nor surely smaller."""
    claim = row(*differences)
    assert abs(claim.difference.mean) - claim.difference.margin > 0 and claim.outcome == "undecided"


def test_a_claim_holds_when_all_its_rows_do() -> None:
    """It was counted by its best row. Premises are apart."""
    good = (0.1, 0.11, 0.12, 0.1, 0.09)
    bad = (0.001, -0.001, 0.002, 0.001, 0.0)
    rows = [
        row(*good, number="2"),
        row(*good, number="2, photographs"),
        row(*bad, number="2, premise, photographs"),
    ]
    rows += [row(*good, number="9a"), row(*bad, number="9b"), row(*good, number="9c"), row(0.1, number="9d")]
    table = as_markdown(rows).splitlines()
    assert table[2:5] == [
        "| 2 | 2 | 2 | 0 | 0 | 0 | holds |",
        "| 9 | 4 | 2 | 0 | 1 | 1 | undecided |",
        "| all | 6 | 4 | 0 | 1 | 1 | |",
    ]


def test_networks_that_have_not_learnt_decide_nothing() -> None:
    differences = (0.1, 0.11, 0.12, 0.1, 0.09)
    assert row(*differences, learnt=(0.05, 0.06, "top-1")).verdict == "undecided: nothing learnt (top-1 0.050, 0.060 needed)"
    assert row(*differences, learnt=(0.5, 0.06, "top-1")).verdict == "holds"


def test_networks_from_given_weights_have_to_be_better_than_these() -> None:
    """They were to be better than chance, which they were before any training."""
    start = Arm("start", {}, lambda seed: {"recall": 0.48})
    given = Arm("given", {}, lambda seed: {"recall": 0.46}, start)
    random = Arm("random", {}, lambda seed: {"recall": 0.46})
    measured = {arm.name: {"recall": [arm.measure(0)["recall"]] * 5} for arm in (start, given, random)}
    given_learnt, random_learnt = (
        find_learnt(measured, (Side("", arm, "recall"),), (0.02, "R@1"), 0.02) for arm in (given, random)
    )
    assert given_learnt == pytest.approx((0.46, 0.5, "R@1")) and random_learnt == pytest.approx((0.46, 0.03, "R@1"))
    assert not row(0.1, 0.1, learnt=given_learnt).has_learnt and row(0.1, 0.1, learnt=random_learnt).has_learnt
    assert {arm.name for arm in Claim("9", "", (given,), lambda measured: row(0.1)).all_arms} == {
        "given",
        "start",
    }


def test_a_row_names_the_commits_and_machines_that_measured_it(tmp_path: Path) -> None:
    start = Arm("start", {}, lambda seed: {"recall": 0.4})
    store = Measurements.open(tmp_path / "claims.json")
    store.add(
        [
            {
                "name": "start",
                "about": {},
                "seed": 0,
                "figures": {"recall": 0.4},
                "commit": "1234567",
                "machine": "another",
            }
        ]
    )
    claim = Claim("9", "", (Arm("given", {}, start.measure, start),), lambda measured: row(0.1))
    found = measure_claim(store, claim, [0])
    (entry,) = store.find("given", {}).values()
    assert set(found.commit.split(", ")) == {"1234567", entry["commit"]}
    assert set(found.machine.split("; ")) == {"another", entry["machine"]}


def test_rows_are_kept_replaced_and_made_a_table_in_their_order(tmp_path: Path) -> None:
    summary = empty_summary(tmp_path)
    summary.put([row(0.1, 0.2, number="10"), row(0.1, 0.2, 0.3, number="2", learnt=(0.5, 0.1, "top-1"))])
    summary.put([row(*[0.3] * 5, number="10"), row(0.1, 0.2, number="9d"), row(0.5, number="2")])
    again = Summary.open(summary.path)
    assert again.rows == summary.rows and [claim.number for claim in again.rows] == ["2", "9d", "10"]
    assert again.rows[0].difference.runs == 3  # the row of more runs
    table = as_markdown(again.rows).splitlines()[7:]
    assert table[4].startswith("| 10 | it helps | table 1 | a |") and table[4].endswith("| 0.02 | holds |")
    assert "| top-1 0.500, 0.100 needed | 0.02 |" in table[2] and "- a: shapes" in table


def test_the_summary_says_what_a_verdict_is_made_of(tmp_path: Path) -> None:
    summary = empty_summary(tmp_path)
    summary.put([row(0.1, 0.2, 0.3)])
    (kept,) = json.loads(summary.path.read_text())["rows"]
    assert kept["difference"] == {"mean": 0.2, "spread": 0.1, "runs": 3} and kept["seeds"] == "0 to 2"
    assert kept["interval"] == pytest.approx([0.2 - 4.303 * 0.1 / 3**0.5, 0.2 + 4.303 * 0.1 / 3**0.5], abs=1e-4)
    assert kept["smallest"] == 0.02 and kept["verdict"].startswith("undecided")


def test_more_runs_than_letters_are_named() -> None:
    """From the 27th on the table ended with a KeyError."""
    rows = [replace(row(0.1, 0.2), claim=f"claim {number:02}", ran=f"setting {number}") for number in range(30)]
    assert {"- z: setting 25", "- aa: setting 26", "- ad: setting 29"} <= set(as_markdown(rows).splitlines())


def test_the_tradeoff_is_drawn_from_the_file(tmp_path: Path) -> None:
    """Figures 5 and C.1: at λ 1 the copies have no gradient, so there is no share."""
    store = Measurements.open(tmp_path / "claims.json")
    with pytest.raises(UserError, match="0 values of λ"):
        collect_tradeoff(store.measurements)

    def give(figures: dict[str, float], seed: int) -> dict[str, float]:
        return figures

    shares = {"gradient_first": 0.5, "gradient_last": 0.75}
    for steps in (5, 50):
        for weight in (1.0, 0.1):
            figures = {"top1": weight + steps, "copies": 5 - weight} | (shares if weight < 1 else {})
            store.measure(f"repeated, λ {weight:g}", {"steps": steps}, range(2), partial(give, figures))
    store.measure("repeated, λ 1, 3 × the steps", {"steps": 150}, range(2), partial(give, {"top1": 0.0, "copies": 0.0}))
    found = collect_tradeoff(store.measurements)
    assert list(found) == [0.1, 1.0] and np.isnan(found[1.0].pop("gradient_first")).all() and found[1.0].pop("gradient_last")
    assert found[1.0] == {"top1": [51.0] * 2, "copies": [4.0] * 2}
    assert found[0.1] == {
        "top1": [50.1] * 2,
        "copies": [4.9] * 2,
        "gradient_first": [0.5] * 2,
        "gradient_last": [0.75] * 2,
    }
    plot_tradeoff(collect_tradeoff(store.measurements), tmp_path / "tradeoff.png")
    with Image.open(tmp_path / "tradeoff.png") as drawn:
        assert drawn.size == (1700, 400) and np.asarray(drawn)[:, 1300:].std() > 10


def test_the_documents_tables_are_those_of_the_summary() -> None:
    """After measuring: `measure_claims.py --docs`."""
    rows = Summary.open(SUMMARY).rows
    assert read_table(DOCUMENT, COMMAND) == count_outcomes(rows)
    assert TABLE.read_text(encoding="utf-8") == as_markdown(rows) + "\n"
    assert all(row.commit and row.machine for row in rows)


def test_the_documents_prose_repeats_no_figure_of_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Conclusions")[2].partition("## What the settings require")[0]
    assert text and not re.findall(r"\.\d{3}", text)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(UserError, match="is not a summary of the claims"):
        Summary.open(tmp_path / "x.json")
