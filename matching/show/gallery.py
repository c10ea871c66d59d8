"""A page of matches and groups of copies, with pictures, that a browser opens from disk: sure, to be looked at, and doubtful."""

import re
from collections.abc import Collection
from functools import cache, partial
from itertools import count
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import is_folder, whole_folder
from image_copies.data.sources.walking import set_aside
from image_copies.submissions.report.gallery import write_thumbnail
from image_copies.submissions.report.inputs import render

from ..files.plan import PlanRow
from ..groups.planning import Grouped
from ..groups.series import list_series
from ..matches import Match, Matches, Rule, describe_count, describe_match
from ..verification.judgement import Kind

TEMPLATE = Path(__file__).parent / "templates" / "matches.html.jinja"
# pairs or groups of each section, and files of a group, that are shown
MAX_SHOWN, MAX_GROUP_FILES = 200, 12
MAX_LISTED = 300  # lines of the lists
FIGURES = re.compile(
    r" \([^()]*( of 100| blocks[^()]*| of the picture differ|pixels of \d+)\)|; \d+ features agree"
)  # in review.js, too
# the sections of pairs: what they show, and of which classes
PAIRS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "Sure": (
        "The same files, and pictures that agree when they are laid on each other.",
        ("same file", "certain"),
    ),
    "To be looked at": ("Likely copies, of which the pixels do not decide it.", ("likely",)),
    "Doubtful": ("Probably two photographs of the same thing.", ("same scene",)),
    "Nearest of those that are no copies": (
        "Nothing says that they share anything; they are listed because no threshold was calibrated.",
        ("unrelated",),
    ),
}


def write_matches_page(
    folder: Path,
    matches: Matches,
    rule: Rule,
    grouped: Grouped | None = None,
    sources: Collection[Path] = (),
) -> Path:
    """Write a page with thumbnails of the groups and the best matches, atomically, and return its path.

    Args:
        folder: Folder of the page.
        matches: The matches.
        rule: When a pair counts as a copy.
        grouped: The groups; None shows none.
        sources: Where the pictures were looked for; names are relative to the folder that holds these.

    Raises:
        UserError: The disk is full.
    """
    numbers = count()
    around = _find_shared_folder(sources)
    with whole_folder(folder) as temporary:
        set_aside(temporary)

        @cache
        def thumbnail(path: Path) -> str | None:
            name = f"images/{next(numbers):05d}.jpg"
            return name if write_thumbnail(path, temporary / name) else None

        def name_file(path: Path) -> str:
            return text_of(path.relative_to(around) if around and around in path.parents else path)

        page = render(
            TEMPLATE,
            groups=grouped.copies if grouped else [],
            series=list_series(matches.pairs, grouped.rows if grouped else ()),
            pairs=[(title, words, _of_kinds(matches, kinds)) for title, (words, kinds) in PAIRS.items()],
            grouped=grouped,
            matches=matches,
            rule=rule,
            counted=describe_count(matches),
            around=text_of(around or ""),
            most=MAX_SHOWN,
            most_files=MAX_GROUP_FILES,
            most_listed=MAX_LISTED,
            name=name_file,
            thumbnail=thumbnail,
            describe_row=_describe,
            describe_match=describe_match,
            leave_figures_out=partial(FIGURES.sub, ""),
        )
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _find_shared_folder(sources: Collection[Path]) -> Path | None:
    """Return the innermost folder that holds all sources; a single folder holds itself."""
    places = [{source, *source.parents} if is_folder(source) else {*source.parents} for source in sources]
    shared = set.intersection(*places) if places else set()
    return max(shared, key=lambda place: len(place.parts), default=None)


def _of_kinds(matches: Matches, kinds: Collection[Kind]) -> list[Match]:
    """Return the pairs of some classes; one that was not judged is likely."""
    return [
        match for match in matches.pairs if (match.judgement.kind if match.judgement else "likely") in kinds
    ]


def _describe(row: PlanRow) -> str:
    facts = row.facts
    if facts is None:
        return row.reason
    words = f"{row.reason}; {facts.width} × {facts.height}, {facts.size / 1000:,.0f} kB {facts.form}"
    return f"{words}, taken {facts.taken}" if facts.taken else words
