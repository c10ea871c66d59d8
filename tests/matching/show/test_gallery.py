"""The gallery shows pairs by their classes, with names below their sources."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.planning import Grouped
from image_copies.matching.matches import Match, Matches, Rule
from image_copies.matching.output import Output
from image_copies.matching.show.gallery import write_matches_page
from image_copies.matching.show.report import _write_plan, write_groups_csv
from image_copies.matching.verification.judgement import Judgement, Kind

RULE = Rule(-0.5, None, 0.001, 10)


def make_pairs(folder: Path, kind: Kind | None, count: int) -> list[Match]:
    judgement = None if kind is None else Judgement(kind, "seen", 50)
    return [
        Match(folder / "new" / f"{kind}-{number}.jpg", folder / "old" / "a" / f"{number}.jpg", -0.1, None, judgement=judgement)
        for number in range(count)
    ]


def read_gallery(folder: Path, pairs: list[Match], *sources: Path) -> str:
    matches = Matches(pairs, -0.5, len(pairs), len(pairs), [])
    page = write_matches_page(folder / "gallery", matches, RULE, sources=sources)
    assert page == folder / "gallery" / "index.html"
    return page.read_text()


def test_pairs_stand_in_sections_by_their_classes(tmp_path: Path) -> None:
    pairs = [*make_pairs(tmp_path, "certain", 100), *make_pairs(tmp_path, "same file", 20), *make_pairs(tmp_path, None, 3)]
    pairs += [*make_pairs(tmp_path, "likely", 48), *make_pairs(tmp_path, "same scene", 1)]
    page = read_gallery(tmp_path, pairs, tmp_path)
    shown = [(part.split("<")[0], part.count('<div class="pair">')) for part in re.split('<h2 id=".*?">', page)[1:]]
    assert shown == [("Sure", 120), ("To be looked at", 51), ("Doubtful", 1)]
    assert re.findall('<a href="#(.*?)">(.*?)</a>', page) == [(title, f"{title} ({count})") for title, count in shown]


def test_series_stand_after_what_needs_a_look_the_sharpest_first(tmp_path: Path) -> None:
    (pair,) = make_pairs(tmp_path, "same scene", 1)
    page = read_gallery(tmp_path, [replace(pair, series=1, sharpest=pair.reference)], tmp_path)
    assert re.findall("<h2 id=.*?>(.*?)<", page) == ["Series", "Doubtful"]
    first, second = re.findall(r"<figcaption>(.*?)<br>(.*?)</figcaption>", page)[:2]
    assert "Series 1: 2 files" in page and first == ("sharpest", "old/a/0.jpg") and second[0] == ""


def test_names_are_relative_to_the_folder_that_holds_the_sources(tmp_path: Path) -> None:
    pair = make_pairs(tmp_path, "certain", 1)
    for sources in ([tmp_path], [tmp_path / "new", tmp_path / "old"], [tmp_path / "new", tmp_path / "old" / "x.zip"]):
        page = read_gallery(tmp_path, pair, *sources)
        assert f"relative to <b>{tmp_path}</b>" in page
        assert "query<br>new/certain-0.jpg<" in page and "reference<br>old/a/0.jpg<" in page
    (tmp_path / "new").mkdir()
    other = read_gallery(tmp_path, pair, tmp_path / "new", tmp_path / "new" / "x.jpg")
    assert "query<br>certain-0.jpg<" in other and f"reference<br>{tmp_path}/old/a/0.jpg<" in other


def test_without_a_pair_there_is_a_page_all_the_same(tmp_path: Path) -> None:
    assert "0 matches" in read_gallery(tmp_path, [])


def test_of_very_many_pairs_the_first_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    page = read_gallery(tmp_path, make_pairs(tmp_path, "likely", 250), tmp_path)
    assert page.count('<div class="pair">') == 200
    assert "The first 200 of 250 are shown; matches.csv lists all." in page


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
