"""The gallery shows pairs by their classes, on pages of 50, with names below their sources."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.planning import Grouped
from image_copies.matching.matches import Match, Matches, Rule
from image_copies.matching.output import Output
from image_copies.matching.results.gallery import write_matches_page
from image_copies.matching.results.report import _write_plan, write_groups_csv
from image_copies.matching.verification.judgement import Judgement, Kind

RULE = Rule(-0.5, None, 0.001, 10)


def make_pairs(folder: Path, kind: Kind | None, count: int) -> list[Match]:
    judgement = None if kind is None else Judgement(kind, "seen", 50)
    return [
        Match(folder / "new" / f"{kind}-{number}.jpg", folder / "old" / "a" / f"{number}.jpg", -0.1, None, judgement=judgement)
        for number in range(count)
    ]


def read_gallery(folder: Path, pairs: list[Match], *sources: Path) -> dict[str, str]:
    matches = Matches(pairs, -0.5, len(pairs), len(pairs), [])
    page = write_matches_page(folder / "gallery", matches, RULE, sources=sources)
    assert page == folder / "gallery" / "index.html"
    return {page.name: page.read_text() for page in (folder / "gallery").glob("*.html")}


def test_pairs_stand_on_pages_of_fifty_by_their_classes(tmp_path: Path) -> None:
    pairs = [*make_pairs(tmp_path, "certain", 100), *make_pairs(tmp_path, "same file", 20), *make_pairs(tmp_path, None, 3)]
    pairs += [*make_pairs(tmp_path, "likely", 48), *make_pairs(tmp_path, "same scene", 1)]
    pages = read_gallery(tmp_path, pairs, tmp_path)
    shown = {name: len(re.findall('<div class="pair">', text)) for name, text in pages.items()}
    assert shown == {
        "index.html": 50,
        "sure-2.html": 50,
        "sure-3.html": 20,
        "look-1.html": 50,
        "look-2.html": 1,
        "doubtful-1.html": 1,
    }
    for name, text in pages.items():
        assert set(re.findall(r'href="([^"]*)"', text)) == set(pages) - {name}
        assert "Sure (120):" in text and "To be looked at (51):" in text and "Doubtful (1):" in text
    assert "same scene-0.jpg" in pages["doubtful-1.html"] and "same scene-0.jpg" not in pages["index.html"]


def test_series_stand_after_what_needs_a_look_the_sharpest_first(tmp_path: Path) -> None:
    (pair,) = make_pairs(tmp_path, "same scene", 1)
    pages = read_gallery(tmp_path, [replace(pair, series=1, sharpest=pair.reference)], tmp_path)
    assert re.findall(r"<span>([^:]*):", pages["index.html"])[:2] == ["Series (1)", "Doubtful (1)"]
    first, second = re.findall(r"<figcaption>(.*?)<br>(.*?)</figcaption>", pages["index.html"])
    assert "Series 1: 2 files" in pages["index.html"] and first == ("sharpest", "old/a/0.jpg") and second[0] == ""


def test_names_are_relative_to_their_source(tmp_path: Path) -> None:
    pair = make_pairs(tmp_path, "certain", 1)
    one = read_gallery(tmp_path, pair, tmp_path)["index.html"]
    assert f"relative to <b>{tmp_path}</b>" in one and "query<br>new/certain-0.jpg<" in one
    two = read_gallery(tmp_path, pair, tmp_path / "new", tmp_path / "old")["index.html"]
    assert "query<br>new/certain-0.jpg<" in two and "reference<br>old/a/0.jpg<" in two
    alike = read_gallery(tmp_path, pair, tmp_path / "new", tmp_path / "other" / "new")["index.html"]
    assert f"query<br>{tmp_path}/new/certain-0.jpg<" in alike and f"reference<br>{tmp_path}/old/a/0.jpg<" in alike


def test_without_a_pair_there_is_a_page_all_the_same(tmp_path: Path) -> None:
    pages = read_gallery(tmp_path, [], tmp_path)
    assert set(pages) == {"index.html"} and "0 matches" in pages["index.html"]


def test_of_very_many_pairs_the_first_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    pages = read_gallery(tmp_path, make_pairs(tmp_path, "likely", 250), tmp_path)
    assert set(pages) == {"index.html", "look-2.html", "look-3.html", "look-4.html"}
    assert "The first 200 of 250 are shown; matches.csv lists all." in pages["index.html"]


def test_people_read_classes_and_programs_scores(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.jpg" for name in "abc")
    certain = PlanRow(7, "review", second, first, "seen (95 % agreement of 80 blocks)", -0.125, None, False, "00" * 32)
    rows = [
        PlanRow(7, "keep", first, first, "largest", None, None, False, "00" * 32),
        PlanRow(7, "review", third, first, "seen", -0.25, None, False, "00" * 32, judgement=Judgement("likely", "seen", 61)),
        replace(certain, judgement=Judgement("certain", "seen", 91)),
    ]
    grouped = Grouped([[first, second, third]], rows=rows)
    page = write_matches_page(tmp_path / "gallery", Matches([], -0.5, 2, 2, []), RULE, grouped, [tmp_path]).read_text()
    assert "Group 1: 2 files" in page
    assert "<summary>seen</summary>seen (95 % agreement of 80 blocks)</details>" in page
    assert not re.search(r"[−-]0\.\d", page)
    write_groups_csv(tmp_path / "groups.csv", grouped.copies)
    kept, other = csv.DictReader((tmp_path / "groups.csv").read_text().splitlines())
    assert (other["score"], other["class"], other["certainty"], kept["class"]) == ("-0.125", "certain", "91", "")
    assert (kept["group"], other["file"], grouped.copies[0].removable) == ("1", str(second), []), "it is to be looked at"


def test_notes_are_offered_to_be_written_beside_files_that_may_be_touched_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--merge-metadata was offered for copies of protected files, next to which nothing is written."""
    kept = PlanRow(1, "keep", tmp_path / "a.jpg", tmp_path / "a.jpg")
    copy = PlanRow(1, "review", tmp_path / "b.jpg", kept.file, merged="a caption")
    for first, offered in ((kept, True), (replace(kept, protected=True), False)):
        _write_plan(tmp_path, [first, copy], Output())
        assert ("1 to look at (1 only for notes" in capsys.readouterr().out) is offered
