"""Groups of copies hold what is the same as their first file, or certainly a copy of it, and say what a plan would remove."""

from pathlib import Path
from typing import get_args

from image_copies.matching.files.plan import Action, PlanRow
from image_copies.matching.groups.planning import list_copies
from image_copies.matching.verification.judgement import Judgement, Kind


def make_row(name: str, kept: str, action: Action, kind: Kind | None = None) -> PlanRow:
    judgement = None if kind is None else Judgement(kind, "seen", 90)
    return PlanRow(1, action, Path(name), Path(kept), "", None, None, False, "00" * 32, judgement=judgement)


def test_a_group_holds_what_is_certain_and_names_what_would_go() -> None:
    rows = [
        make_row("a", "a", "keep"),
        make_row("same", "a", "remove", "same file"),
        make_row("captioned", "a", "review", "certain"),
        make_row("linked", "a", "leave", "same file"),
        make_row("collage", "a", "leave"),
        *(make_row(f"{kind} {number}", "a", "review", kind) for number, kind in enumerate(get_args(Kind)[2:])),
    ]
    (group,) = list_copies(rows)
    assert group == [Path(name) for name in ("a", "same", "captioned", "linked")] and group.removable == [Path("same")]
    assert list_copies([row for row in rows if row.judgement is None or row.judgement.kind == "likely"]) == []


def test_what_stays_beside_the_kept_file_has_a_group_of_its_own() -> None:
    rows = [
        make_row("a", "a", "keep"),
        make_row("shot", "shot", "keep"),
        make_row("shot smaller", "shot", "remove", "certain"),
        make_row("shot same", "shot", "remove", "same file"),
        make_row("a smaller", "a", "remove", "certain"),
    ]
    first, second = list_copies(rows)
    assert first == [Path(name) for name in ("shot", "shot smaller", "shot same")] and second == [Path("a"), Path("a smaller")]
    assert [row.group for row in first.rows + second.rows] == [1, 1, 1, 2, 2]
