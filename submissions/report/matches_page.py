"""Matches as a page of pictures that opens from disk."""

from pathlib import Path

from data.files import whole_folder
from data.images import ImageSet
from submissions.index.matches import Matches, Rule, shown
from submissions.report.rendering import render
from submissions.report.thumbnails import Thumbnails

MOST = 300
TAIL_OF_PATH = 3  # parts of a path that a caption shows


def write_matches_page(folder: Path, matches: Matches, rule: Rule) -> Path:
    """Write `index.html` and thumbnails of the best matches; whole or not at all. Returns the page's path."""
    best = matches.pairs[:MOST]
    with whole_folder(folder) as temporary:
        queries = _thumbnails(temporary, [match.query for match in best], "q")
        references = _thumbnails(temporary, [match.reference for match in best], "r")
        cards = [
            (queries(str(match.query)), references(str(match.reference)), match, _caption(match.query), _caption(match.reference))
            for match in best
        ]
        unreadable = [shown(path) for path in matches.unreadable[:MOST]]
        page = render("matches.html.jinja", matches=matches, rule=rule, shown=cards, unreadable=unreadable)
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _thumbnails(folder: Path, paths: list[Path], prefix: str) -> Thumbnails:
    unique = sorted(set(paths))
    return Thumbnails(folder / "images", ImageSet([str(path) for path in unique], unique), prefix)


def _caption(path: Path) -> str:
    return shown(Path(*path.parts[-TAIL_OF_PATH:]))
