"""What is known of a match has one list of names, by which the CSV, JSON lines and pages have it."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.matching import matches
from image_copies.matching.matches import (
    EVIDENCE_CELLS,
    MATCH_CELLS,
    MAX_ALARMS,
    MAX_MIRRORED_ALARMS,
    MAX_THOROUGH_ALARMS,
    POSITIVE,
    SERIES_CELLS,
    UNCHANGED,
    Match,
    Matches,
    Rule,
    read_matches_csv,
)
from image_copies.matching.output import Output
from image_copies.matching.show import service
from image_copies.matching.show.report import write_results
from image_copies.matching.show.review import _show_values
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.features import CHANGES
from image_copies.matching.verification.geometry import Evidence


@dataclass(frozen=True)
class Turned(Evidence):
    """Evidence with a further value, as a later version may find one."""

    quarter_turns: int = 0


def test_every_field_is_a_column() -> None:
    assert [field.name for field in fields(Match)] == [*MATCH_CELLS, "evidence", "judgement", "crop", *SERIES_CELLS, "same_bytes"]
    recorded = [field.name for field in fields(Evidence) if field.compare]  # the homography is not: no later command needs it
    assert recorded == [*EVIDENCE_CELLS]


def test_a_new_value_needs_a_field_and_a_row_to_be_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name)
    monkeypatch.setitem(EVIDENCE_CELLS, "quarter_turns", int)
    monkeypatch.setattr(matches, "Evidence", Turned)
    match = Match(
        tmp_path / "a.png",
        tmp_path / "b.png",
        -0.25,
        None,
        evidence=Turned(12, "mirrored", (0, 0, 1, 1), (0, 0.5, 1, 1), quarter_turns=3),
    )
    write_results(
        tmp_path, Matches([match], -0.5, 1, 1, [], verified=True), None, Rule(-0.5, None, 0.1, 1), Output(json=True, quiet=True)
    )
    assert read_matches_csv(tmp_path / "matches.csv") == [match]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["quarter_turns"] for line in lines if line["type"] == "match"] == [3]
    assert "score −0.250, 12 features agree, mirrored, quarter turns 3" in (tmp_path / "gallery" / "index.html").read_text(
        "utf-8"
    )
    shown, (read, _) = service._show(match), _show_values(matches.match_values(match), False).values()
    assert shown["quarter_turns"] == read["quarter_turns"] == 3


def test_a_score_of_the_threshold_itself_is_that_of_a_copy() -> None:
    pairs = [
        Match(Path("q"), Path(name), score, None) for name, score in (("a", -0.5), ("b", -0.50001), ("c", -0.5), ("d", -0.5))
    ]
    assert [match.reference.name for match in Rule(-0.5, None, 0.001, 2).select_verified(pairs, -0.5)] == ["a", "c"]


def test_far_pairs_are_not_verified_and_near_ones_thoroughly() -> None:
    """Of 25 references half a false alarm is expected at the tail's start: the limits lie on both sides of it."""
    one, other, tail, references = Path("one"), Path("other"), Tail(start=1.0, scale=0.1, share=0.01, pairs=10_000), 25
    rule = Rule(None, tail, 0.001, 10)
    distances = [tail.distance(alarms, references) - 1e-6 for alarms in (MAX_THOROUGH_ALARMS, MAX_MIRRORED_ALARMS, MAX_ALARMS)]
    assert distances[0] < tail.start < distances[1] < distances[2]
    pairs = [Match(one, other, -distance, 0.5) for distance in [*distances, distances[2] + 1e-3]]
    assert rule.choose_changes(pairs, references) == [CHANGES, POSITIVE, UNCHANGED, ()]
    assert replace(rule, tail=None).choose_changes(pairs[3:], references) == [CHANGES]
    accepted = Match(one, other, -1.9, 0.0)
    assert rule.choose_changes([accepted], references) == [CHANGES], "what a person called a copy is looked at"
