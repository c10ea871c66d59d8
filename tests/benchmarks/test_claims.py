"""The machinery of the claims: verdicts with their power, and a results file that a stopped run goes on from."""

import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.errors import UserError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from claim_rows.curves import collect_tradeoff, plot_tradeoff
from claim_rows.document import BEGIN, DOCUMENT, END, RESULTS, read_table, write_table
from claim_rows.row import MAX_PLANNED_RUNS, Row, compute_half_width, count_runs_needed
from claim_rows.store import as_markdown, open_store


def row(*differences: float, smallest: float = 0.02, learnt: tuple[float, float, str] | None = None, number: str = "2") -> Row:
    return Row(number, "it helps", "table 1", "shapes", "a, b", differences, smallest, learnt, cause="why")


def test_the_interval_is_students() -> None:
    """2.776 is the quantile for five runs."""
    claim = row(0.1, 0.2, 0.3, 0.4, 0.5)
    assert claim.mean == pytest.approx(0.3) and claim.margin == pytest.approx(
        2.776 * np.std(claim.differences, ddof=1) / 5**0.5, rel=1e-3
    )
    assert compute_half_width(1.0, 1) == math.inf


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.1, 0.11, 0.12, 0.1, 0.09), "holds"),
        ((-0.1, -0.11, -0.12, -0.1, -0.09), "contradicted: why"),
        ((0.1, 0.11, 0.12), "undecided: 3 runs, at least 5 decide (2 more)"),
        ((-0.1, -0.11, -0.12), "undecided: 3 runs, at least 5 decide (2 more)"),
    ],
)
def test_a_claim_is_decided_by_its_interval_and_by_five_runs_at_least(differences: tuple[float, ...], verdict: str) -> None:
    assert row(*differences).verdict == verdict


def test_a_difference_that_is_not_above_zero_is_not_yet_contradicted() -> None:
    """Want of power is no verdict: it is said how many more runs would decide, and so many do."""
    rng = np.random.default_rng(0)
    draws = -0.02 + 0.05 * rng.normal(size=400)
    claim = row(*draws[:6].tolist(), smallest=0.02)
    words = claim.verdict.split()
    assert claim.verdict.startswith("undecided: ") and words[2:6] == ["more", "runs", "would", "decide"]
    needed = 6 + int(words[1])
    spread, effect = float(np.std(claim.differences, ddof=1)), max(abs(claim.mean), 0.02)
    assert compute_half_width(spread, needed) < effect <= compute_half_width(spread, needed - 1)
    assert row(*draws.tolist()).verdict == "contradicted: why"


def test_an_effect_below_what_matters_is_bounded() -> None:
    claim = row(0.001, -0.001, 0.0012, -0.0008, 0.0005, smallest=0.02)
    assert claim.verdict.startswith("undecided: any effect is below 0.00")
    assert count_runs_needed(1.0, 1e-6) == MAX_PLANNED_RUNS + 1 and count_runs_needed(1e-9, 1.0) == 5


def test_networks_that_have_not_learnt_decide_nothing() -> None:
    differences = (0.1, 0.11, 0.12, 0.1, 0.09)
    assert row(*differences, learnt=(0.05, 0.04, "top-1")).verdict.startswith(
        "undecided: the networks have not learnt (top-1 0.050"
    )
    assert row(*differences, learnt=(0.5, 0.04, "top-1")).verdict == "holds"


def test_a_stopped_run_goes_on_and_further_seeds_join(tmp_path: Path) -> None:
    done: list[int] = []

    def work(seed: int) -> dict[str, float]:
        if seed == 2 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        done.append(seed)
        return {"recall": seed / 10}

    file = tmp_path / "claims.json"
    with pytest.raises(KeyboardInterrupt):
        open_store(file).measure("arm", {"steps": 5}, range(3), work)
    (tmp_path / "again").touch()
    assert [run["recall"] for run in open_store(file).measure("arm", {"steps": 5}, range(4), work)] == [0, 0.1, 0.2, 0.3]
    assert done == [0, 1, 2, 3]
    open_store(file).measure("arm", {"steps": 6}, range(1), work)  # another budget is another measurement
    open_store(file).measure("other arm", {"steps": 5}, range(1), work)
    assert done == [0, 1, 2, 3, 0, 0]


def test_rows_are_kept_replaced_and_made_a_table_in_their_order(tmp_path: Path) -> None:
    store = open_store(tmp_path / "claims.json")
    store.put([row(0.1, 0.2, number="10"), row(0.1, 0.2, 0.3, number="2", learnt=(0.5, 0.1, "top-1"))])
    store.put([row(*[0.3] * 5, number="10"), row(0.1, 0.2, number="9d")])
    again = open_store(tmp_path / "claims.json")
    assert again.rows == store.rows and [claim.number for claim in again.rows] == ["2", "9d", "10"]
    table = as_markdown(again).splitlines()
    assert table[4].startswith("| 10 | it helps | table 1 | a |") and table[4].endswith("| 0.02 | holds |")
    assert "- a: shapes" in table


def test_more_runs_than_letters_are_named(tmp_path: Path) -> None:
    """From the 27th on the table ended with a KeyError."""
    store = open_store(tmp_path / "claims.json")
    store.put([replace(row(0.1, 0.2), claim=f"claim {number:02}", ran=f"setting {number}") for number in range(30)])
    assert {"- z: setting 25", "- aa: setting 26", "- ad: setting 29"} <= set(as_markdown(store).splitlines())


def test_the_tradeoff_is_drawn_from_the_file(tmp_path: Path) -> None:
    """Figures 5 and C.1: at λ 1 the copies have no gradient, so there is no share."""
    store = open_store(tmp_path / "claims.json")
    with pytest.raises(UserError, match="0 values of λ"):
        collect_tradeoff(store)

    def give(figures: dict[str, float], seed: int) -> dict[str, float]:
        return figures

    shares = {"gradient_first": 0.5, "gradient_last": 0.75}
    for steps in (5, 50):
        for weight in (1.0, 0.1):
            figures = {"top1": weight + steps, "copies": 5 - weight} | (shares if weight < 1 else {})
            store.measure(f"repeated, λ {weight:g}", {"steps": steps}, range(2), partial(give, figures))
    store.measure("repeated, λ 1, 3 × the steps", {"steps": 150}, range(2), partial(give, {"top1": 0.0, "copies": 0.0}))
    found = collect_tradeoff(store)
    assert list(found) == [0.1, 1.0] and np.isnan(found[1.0].pop("gradient_first")).all() and found[1.0].pop("gradient_last")
    assert found[1.0] == {"top1": [51.0] * 2, "copies": [4.0] * 2}
    assert found[0.1] == {"top1": [50.1] * 2, "copies": [4.9] * 2, "gradient_first": [0.5] * 2, "gradient_last": [0.75] * 2}
    plot_tradeoff(collect_tradeoff(store), tmp_path / "tradeoff.png")
    with Image.open(tmp_path / "tradeoff.png") as drawn:
        assert drawn.size == (1700, 400) and np.asarray(drawn)[:, 1300:].std() > 10


def test_commands_share_a_results_file(tmp_path: Path) -> None:
    """Each used to write what it had read when it began, without what others had written since."""
    first, second = (open_store(tmp_path / "claims.json") for _ in range(2))
    first.measure("arm", {"steps": 5}, range(2), lambda seed: {"recall": 0.1})
    second.measure("other arm", {"steps": 5}, range(1), lambda seed: {"recall": 0.2})
    first.put([row(0.1, 0.2, number="2")])
    second.put([row(0.3, 0.4, number="9d")])
    done: list[int] = []
    second.measure("arm", {"steps": 5}, range(3), lambda seed: done.append(seed) or {"recall": 0.3})  # type: ignore[func-returns-value]
    assert done == [2]  # the other command has measured the others
    found = open_store(tmp_path / "claims.json")
    assert [(entry["name"], entry["seed"]) for entry in found.measurements] == [
        ("arm", 0), ("arm", 1), ("other arm", 0), ("arm", 2)
    ]  # fmt: skip
    assert [claim.number for claim in found.rows] == ["2", "9d"]


def test_results_files_are_merged(tmp_path: Path) -> None:
    here, there = open_store(tmp_path / "here.json"), open_store(tmp_path / "there.json")
    here.measure("arm", {"steps": 5}, range(2), lambda seed: {"recall": 0.1})
    there.measure("arm", {"steps": 5}, range(3), lambda seed: {"recall": 0.2})
    here.put([row(*[0.1] * 5, number="2"), row(0.1, 0.2, number="3")])
    there.put([row(0.3, 0.3, number="2"), row(0.3, 0.4, 0.5, number="3"), row(0.3, 0.4, number="4")])
    here.merge(there)
    found = open_store(tmp_path / "here.json")
    assert [entry["figures"]["recall"] for entry in found.measurements] == [0.1, 0.1, 0.2]  # what is here stays
    assert [len(claim.differences) for claim in found.rows] == [5, 3, 2]  # the row of more runs


def test_what_was_expected_stands_beside_what_came(tmp_path: Path) -> None:
    here, before = open_store(tmp_path / "here.json"), open_store(tmp_path / "before.json")
    here.put([row(0.1, number="2"), row(0.2, number="3")])
    before.put([row(0.125, number="2")])
    table = as_markdown(here, before).splitlines()
    assert table[0].split(" | ")[5:7] == ["difference", "expected"]
    assert "+0.100, one run | +0.125 |" in table[2] and "+0.200, one run | none |" in table[3]


def test_the_table_is_written_between_the_marks_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "papers.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_table(document, "| new |")
    assert read_table(document) == "| new |" and document.read_text(encoding="utf-8").startswith("before\n")
    assert document.read_text(encoding="utf-8").endswith(f"{END}\nafter\n")
    document.write_text("no marks")
    with pytest.raises(UserError, match="no place for the table"):
        write_table(document, "| new |")


def test_the_documents_table_is_that_of_the_results_file() -> None:
    """After measuring: `claims.py --results benchmarks/claims.json --only --docs`."""
    assert read_table(DOCUMENT) == as_markdown(open_store(RESULTS))


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(UserError, match="is not a results file of the claims"):
        open_store(tmp_path / "x.json")
