"""A page of matches and groups of copies, with pictures, that a browser opens from disk: sure, to be looked at, and doubtful."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
from ..verification.features import Box
from ..verification.judgement import Kind

TEMPLATE = Path(__file__).parent / "templates" / "matches.html.jinja"
MAX_SHOWN, MAX_GROUP_FILES = 200, 12  # pairs or groups of each section, and files of a group, that are shown
MAX_LISTED = 300  # lines of the lists
FIGURES = re.compile(
    r" \([^()]*( of 100| blocks[^()]*| of the picture differ|pixels of \d+)\)|; \d+ features agree"
)  # in review.js, too
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


@dataclass(frozen=True)
class Card:
    """Pictures side by side: of each the file, a label, and the part that is framed; and what is known of them in words."""

    pictures: Sequence[tuple[Path, str, Box | None]]
    words: str


@dataclass(frozen=True)
class Section:
    """A part of the gallery.

    Attributes:
        title: Its heading.
        words: What it shows.
        groups: The groups, or one that holds all pairs: of each the number of its cards and its first ones.
        count: Number of all its groups or pairs, shown or not.
    """

    title: str
    words: str
    groups: Sequence[tuple[int, Sequence[Card]]]
    count: int


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
            sections=[section for section in _list_sections(matches, grouped) if section.count],
            grouped=grouped,
            matches=matches,
            rule=rule,
            counted=describe_count(matches),
            around=text_of(around or ""),
            most=MAX_LISTED,
            name=name_file,
            thumbnail=thumbnail,
            leave_figures_out=partial(FIGURES.sub, ""),
        )
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _find_shared_folder(sources: Collection[Path]) -> Path | None:
    """Return the innermost folder that holds all sources; a single folder holds itself."""
    places = [{source, *source.parents} if is_folder(source) else {*source.parents} for source in sources]
    shared = set.intersection(*places) if places else set()
    return max(shared, key=lambda place: len(place.parts), default=None)


def _list_sections(matches: Matches, grouped: Grouped | None) -> list[Section]:
    copies = grouped.copies if grouped else []
    groups = [
        [Card([(row.file, row.action, None)], _describe(row)) for row in group.rows] for group in copies
    ]
    shots = [
        [Card([(file, "" if place else "sharpest", None)], "") for place, file in enumerate(files)]
        for files in list_series(matches.pairs, grouped.rows if grouped else ())
    ]
    kept = "The first picture of each group is the one that the plan keeps; the others certainly are copies of it."
    sections = [_make_section("Certain copies", kept, groups)]
    for title, (words, kinds) in PAIRS.items():
        pairs = [
            match
            for match in matches.pairs
            if (match.judgement.kind if match.judgement else "likely") in kinds
        ]
        cards = [_make_card(match) for match in pairs[:MAX_SHOWN]]
        sections.append(Section(title, words, [(len(pairs), cards)], len(pairs)))
    row = "Shots of one scene in a row, the sharpest of each first; nothing is planned for them."
    sections.insert(3, _make_section("Series", row, shots))
    return sections


def _make_section(title: str, words: str, groups: Sequence[Sequence[Card]]) -> Section:
    """Return the section of groups or series, of each the first files."""
    shown = [(len(cards), cards[:MAX_GROUP_FILES]) for cards in groups[:MAX_SHOWN]]
    return Section(title, words, shown, len(groups))


def _make_card(match: Match) -> Card:
    shared = match.evidence
    regions = (shared.query_region, shared.reference_region) if shared else (None, None)
    pictures = list(zip(match.files, ("query", "reference"), regions, strict=True))
    return Card(pictures, describe_match(match).replace("-", "−"))


def _describe(row: PlanRow) -> str:
    facts = row.facts
    if facts is None:
        return row.reason
    words = f"{row.reason}; {facts.width} × {facts.height}, {facts.size / 1000:,.0f} kB {facts.form}"
    return f"{words}, taken {facts.taken}" if facts.taken else words
