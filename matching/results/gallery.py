"""Pages of matches and groups of copies, with pictures, that a browser opens from disk: sure, to be looked at, and doubtful."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import whole_folder
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
PAGE = 50  # groups or pairs on a page
MAX_SHOWN, MAX_GROUP_FILES = 200, 12  # pairs or groups of each section, and files of a group, that are shown
MAX_LISTED = 300  # lines of the lists
FIGURES = re.compile(
    r" \([^()]*( of 100| blocks[^()]*| of the picture differ|pixels of \d+)\)|; \d+ features agree"
)  # in review.js, too
SECTIONS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "sure": ("Sure", ("same file", "certain")),
    "look": ("To be looked at", ("likely",)),
    "doubtful": ("Doubtful", ("same scene",)),
    "nearest": ("Nearest of those that are no copies", ("unrelated",)),
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
        key: Begins the names of its pages.
        title: Its heading.
        count: Number of all its groups or pairs, shown or not.
        entries: Those that are shown: the heading of each, empty for a pair, and its cards.
    """

    key: str
    title: str
    count: int
    entries: Sequence[tuple[str, Sequence[Card]]]

    def pages(self) -> range:
        """Return the numbers of its first entry on each page."""
        return range(0, len(self.entries), PAGE)


def write_matches_page(
    folder: Path,
    matches: Matches,
    rule: Rule,
    grouped: Grouped | None = None,
    sources: Collection[Path] = (),
) -> Path:
    """Write pages with thumbnails of the groups and the best matches, atomically, and return the path of the first, `index.html`.

    Args:
        folder: Folder of the pages.
        matches: The matches.
        rule: When a pair counts as a copy.
        grouped: The groups; None shows none.
        sources: Where the pictures were looked for; names are relative to these.

    Raises:
        UserError: when the disk is full.
    """
    sections = [section for section in _list_sections(matches, grouped) if section.count]
    shown = [(section, start) for section in sections for start in section.pages()]
    addresses = {
        (section.key, start): f"{section.key}-{start // PAGE + 1}.html" if place else "index.html"
        for place, (section, start) in enumerate(shown)
    }
    numbers = count()
    with whole_folder(folder) as temporary:
        set_aside(temporary)

        @cache
        def thumbnail(path: Path) -> str | None:
            name = f"images/{next(numbers):05d}.jpg"
            return name if write_thumbnail(path, temporary / name) else None

        for section, start in shown or [(Section("none", "", 0, []), 0)]:
            address = addresses.get((section.key, start), "index.html")
            page = render(
                TEMPLATE,
                section=section,
                entries=section.entries[start : start + PAGE],
                here=address,
                sections=sections,
                addresses=addresses,
                grouped=grouped,
                matches=matches,
                rule=rule,
                counted=describe_count(matches),
                sources=sorted(sources)[:MAX_GROUP_FILES],
                most=MAX_LISTED,
                name=_make_namer(sources),
                text_of=text_of,
                thumbnail=thumbnail,
                leave_figures_out=partial(FIGURES.sub, ""),
            )
            (temporary / address).write_text(page, encoding="utf-8")
    return folder / "index.html"


def _list_sections(matches: Matches, grouped: Grouped | None) -> list[Section]:
    copies = grouped.copies if grouped else []
    series = list_series(matches.pairs, grouped.rows if grouped else ())
    groups = [
        [Card([(row.file, row.action, None)], _describe(row)) for row in group.rows] for group in copies
    ]
    shots = [
        [Card([(file, "" if place else "sharpest", None)], "") for place, file in enumerate(files)]
        for files in series
    ]
    sections = [_make_section("groups", "Certain copies", "Group", groups)]
    for key, (title, kinds) in SECTIONS.items():
        pairs = [
            match
            for match in matches.pairs
            if (match.judgement.kind if match.judgement else "likely") in kinds
        ]
        entries = [("", [_make_card(match)]) for match in pairs[:MAX_SHOWN]]
        sections.append(Section(key, title, len(pairs), entries))
    sections.insert(3, _make_section("series", "Series", "Series", shots))
    return sections


def _make_section(key: str, title: str, noun: str, groups: Sequence[Sequence[Card]]) -> Section:
    """Return the section of groups or series, of each the first files."""
    entries = [
        (f"{noun} {number}: {len(cards)} files", cards[:MAX_GROUP_FILES])
        for number, cards in enumerate(groups[:MAX_SHOWN], 1)
    ]
    return Section(key, title, len(groups), entries)


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


def _make_namer(sources: Collection[Path]) -> Callable[[Path], str]:
    """Return a function that names a file by its path below its source; with several sources, after the source's name."""
    alike = len({source.name for source in sources}) < len(set(sources))

    def name(path: Path) -> str:
        source = next((folder for folder in path.parents if folder in sources), None)
        if source is None:
            return text_of(path)
        below = path.relative_to(source)
        if len(sources) == 1:
            return text_of(below)
        return text_of(path if alike else source.name / below)

    return name
