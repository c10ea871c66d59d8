"""Sections, equations, tables and figures that the code and the documents cite exist in the papers."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("data", "augmentations", "models", "submissions", "matching", "pipeline", "benchmarks", "docs", "recipes", "README.md")


def numbered(last: dict[str, int]) -> set[str]:
    """{"2": 3} is 2, 2.1, 2.2 and 2.3."""
    return {part for chapter, count in last.items() for part in (chapter, *(f"{chapter}.{n}" for n in range(1, count + 1)))}


def up_to(last: int, letter: str = "") -> set[str]:
    return {f"{letter}{number}" for number in range(1, last + 1)}


# As the papers number them; of SVMax the appendix, of MultiGrain the arXiv version and the submission to ICLR ("ICLR" before it).
EXIST = {
    "ISC2021": {
        "section": numbered({"1": 0, "2": 7, "3": 0}) | {"2.5.1", "2.7.1", "2.7.2"},
        "equation": up_to(14),
        "table": up_to(2),
        "figure": up_to(8),
    },
    "MultiGrain": {
        "section": numbered({"1": 0, "2": 0, "3": 5, "4": 5, "5": 0}),
        "equation": up_to(5),
        "table": up_to(3) | {"B.1", "C.1"},
        "figure": up_to(5) | {"4a", "4b", "4c", "A.1", "A.2", "A.3"},
        "supplement": {"A", "B", "C"},
    },
    "ICLR": {
        "section": numbered({"1": 0, "2": 0, "3": 5, "4": 4, "5": 0}),
        "equation": up_to(4),
        "table": up_to(2) | {"D.1", "E.1"},
        "figure": {"B.1", "C.1", "D.1", "D.2", "D.3"},
        "appendix": set("ABCDEFG"),
    },
    "SVMax": {
        "section": {"A.1", "A.2", "B.1", "B.2"},
        "appendix": {"A", "B"},
        "equation": up_to(8, "A"),
        "table": {"A1"},
        "figure": up_to(10, "A"),
    },
    "IDEAL": {"section": numbered({"1": 0, "2": 0, "3": 0, "4": 3, "5": 4}), "equation": up_to(2), "table": up_to(4)},
}
PLACE = re.compile(
    r"(section|equation|table|figure|appendix|supplement)s? ([A-Z]?\.?\d[\d.]*[a-c]?|[A-G])(?: and ([A-Z]?\d[\d.]*))?"
)
PAPER = re.compile(r"ISC2021|MultiGrain|ICLR|SVMax|IDEAL")


def cited(text: str) -> list[tuple[str, str, str]]:
    """(paper, kind, number) of every place that is cited in the same breath as a paper, as `(IDEAL, sections 4.1 and 4.3)`."""
    found = []
    for part in re.split(r"[()\n;|\"]", text):
        for place in PLACE.finditer(part):
            papers = PAPER.findall(part[: place.start()])
            if papers:
                found += [(papers[-1], place[1], number.rstrip(".")) for number in place.groups()[1:] if number]
    return found


def files() -> list[Path]:
    tops = [ROOT / room for room in ROOMS]
    inside = [path for top in tops for path in top.rglob("*") if path.suffix in {".py", ".md", ".yaml"}]
    return [top for top in tops if top.is_file()] + inside


def test_what_is_cited_exists() -> None:
    found = {(path.relative_to(ROOT).as_posix(), *place) for path in files() for place in cited(path.read_text(encoding="utf-8"))}
    wrong = [place for place in sorted(found) if place[3] not in EXIST[place[1]].get(place[2], set())]
    assert not wrong and len(found) > 15


@pytest.mark.parametrize(
    "text", ["(ISC2021 paper, section 3.3)", "best (ISC2021 paper, table 3)", "(IDEAL, sections 4.1 and 6.1)"]
)
def test_a_wrong_citation_would_be_found(text: str) -> None:
    assert any(number not in EXIST[paper].get(kind, set()) for paper, kind, number in cited(text))
