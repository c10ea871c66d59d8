"""Matches as a page of pictures that opens from disk."""

import os
from pathlib import Path

from data.files import whole_folder
from data.images import ImageSet
from submissions.index.matches import Matches, Rule, counted, shown
from submissions.report.rendering import render
from submissions.report.thumbnails import Thumbnails

MAX_MATCHES = 300


def write_matches_page(folder: Path, matches: Matches, rule: Rule) -> Path:
    """Write `index.html` and thumbnails of the best matches, whole or not at all; return the page's path."""
    best = matches.pairs[:MAX_MATCHES]
    with whole_folder(folder) as temporary:
        queries = _thumbnails(temporary, [match.query for match in best], "q")
        references = _thumbnails(temporary, [match.reference for match in best], "r")
        above = _folder([match.query for match in best]), _folder([match.reference for match in best])
        cards = [
            (
                queries(str(match.query)),
                references(str(match.reference)),
                match,
                shown(match.query.relative_to(above[0])),
                shown(match.reference.relative_to(above[1])),
            )
            for match in best
        ]
        page = render(
            "matches.html.jinja",
            counted=counted(matches),
            matches=matches,
            rule=rule,
            folders=[shown(folder) for folder in above],
            shown=cards,
            unreadable=[shown(path) for path in matches.unreadable[:MAX_MATCHES]],
        )
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _thumbnails(folder: Path, paths: list[Path], prefix: str) -> Thumbnails:
    unique = sorted(set(paths))
    return Thumbnails(folder / "images", ImageSet([str(path) for path in unique], unique), prefix)


def _folder(paths: list[Path]) -> Path:
    """The folder that all of them lie in, so that captions need not repeat it."""
    return Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
