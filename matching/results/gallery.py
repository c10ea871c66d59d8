"""Pages of matches and groups of copies, with pictures, that a browser opens from disk: sure, to be looked at, and doubtful."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import whole_folder
from image_copies.data.images import ImageSet
from image_copies.data.sources.walking import set_aside
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.grouped import FileGroups
from image_copies.matching.groups.groups import Link
from image_copies.matching.groups.planning import Grouped
from image_copies.matching.groups.series import list_series
from image_copies.matching.matches import Match, Matches, Rule, describe_count, describe_match
from image_copies.matching.verification.judgement import Kind
from image_copies.submissions.report.gallery import Thumbnails
from image_copies.submissions.report.inputs import render

TEMPLATE = Path(__file__).parent / "templates" / "matches.html.jinja"
PAGE = 50  # groups or pairs on a page
# pairs of each section, groups, and files of a group that are shown
MAX_MATCHES, MAX_GROUPS, MAX_GROUP_FILES = 200, 200, 12
FIGURES = re.compile(
    r" \([^()]*( of 100| blocks[^()]*| of the picture differ|pixels of \d+)\)|; \d+ features agree|, sharpness \d+"
)  # in review.js, too
MAX_LISTED = 300  # lines of the lists
SECTIONS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "sure": ("Sure", ("same file", "certain")),
    "look": ("To be looked at", ("likely",)),
    "doubtful": ("Doubtful", ("same scene",)),
    "nearest": ("Nearest of those that are no copies", ("unrelated",)),
}


@dataclass(frozen=True)
class GroupCard:
    """A group, or a series, as a page shows it."""

    number: int
    files: int
    # thumbnail's path, label, name and a line of facts of each
    pictures: Sequence[tuple[str | None, str, str, str]]


@dataclass(frozen=True)
class PairCard:
    """A pair as a page shows it: the thumbnails' paths, the names, the match, and what is known of it in words."""

    thumbnails: tuple[str | None, str | None]
    names: tuple[str, str]
    match: Match
    described: str


@dataclass(frozen=True)
class Section:
    """A part of the gallery: the cards of each of its pages."""

    key: str
    title: str
    count: int  # of all groups or pairs, shown or not
    pages: Sequence[Sequence[GroupCard | PairCard]]

    @property
    def shown(self) -> int:
        """Number of the groups or pairs that are shown."""
        return sum(map(len, self.pages))


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
    name = _make_namer(sources)
    groups = grouped.groups if grouped else FileGroups([], [], [])
    with whole_folder(folder) as temporary:
        set_aside(temporary)
        sections = _make_sections(temporary, matches, grouped, name)
        shown = [(section, number) for section in sections for number in range(1, len(section.pages) + 1)]
        addresses = {(section.key, number): f"{section.key}-{number}.html" for section, number in shown}
        if shown:
            addresses[shown[0][0].key, 1] = "index.html"
        for section, number in shown or [(Section("none", "", 0, [[]]), 1)]:
            address = addresses.get((section.key, number), "index.html")
            page = render(
                TEMPLATE,
                section=section,
                cards=section.pages[number - 1],
                here=address,
                navigation=[
                    (each, [addresses[each.key, place] for place in range(1, len(each.pages) + 1)])
                    for each in sections
                ],
                cuts=[(_describe_link(cut.link, name), cut) for cut in groups.cuts[:MAX_LISTED]],
                hubs=[(name(hub.content[0]), hub) for hub in groups.hubs[:MAX_LISTED]],
                flat=[name(path) for path in groups.flat[:MAX_LISTED]],
                leave_figures_out=partial(FIGURES.sub, ""),
                counted=describe_count(matches),
                matches=matches,
                rule=rule,
                sources=[text_of(source) for source in sorted(sources)[:MAX_GROUP_FILES]],
                unreadable=[name(path) for path in matches.unreadable[:MAX_LISTED]],
            )
            (temporary / address).write_text(page, encoding="utf-8")
    return folder / "index.html"


def _make_sections(
    folder: Path, matches: Matches, grouped: Grouped | None, name: Callable[[Path], str]
) -> list[Section]:
    """Return the sections, whose thumbnails are written into `folder`."""
    copies = grouped.copies if grouped else []
    series = list_series(matches.pairs, grouped.rows if grouped else ())
    best = {key: _choose_pairs(matches.pairs, kinds) for key, (_, kinds) in SECTIONS.items()}
    files = {file for pairs in best.values() for match in pairs[:MAX_MATCHES] for file in match.files}
    thumbnails = _make_thumbnails(folder, files.union(*copies[:MAX_GROUPS], *series[:MAX_GROUPS]))

    def make_card(match: Match) -> PairCard:
        pictures = thumbnails(str(match.query)), thumbnails(str(match.reference))
        return PairCard(
            pictures,
            (name(match.query), name(match.reference)),
            match,
            describe_match(match).replace("-", "−"),
        )

    sections = []
    if grouped:
        shown = [[(row.file, row.action, _facts(row)) for row in group.rows] for group in copies[:MAX_GROUPS]]
        sections.append(
            Section(
                "groups",
                "Certain copies",
                len(copies),
                _cut_pages(_make_group_cards(shown, thumbnails, name)),
            )
        )
    for key, pairs in best.items():
        made = [make_card(match) for match in pairs[:MAX_MATCHES]]
        sections.append(Section(key, SECTIONS[key][0], len(pairs), _cut_pages(made)))
        if key == "look":
            labelled = [
                [(file, "" if place else "sharpest", "") for place, file in enumerate(files)]
                for files in series
            ]
            cards = _make_group_cards(labelled, thumbnails, name)
            sections.append(Section("series", "Series", len(series), _cut_pages(cards)))
    return sections


def _cut_pages(cards: Sequence[GroupCard] | Sequence[PairCard]) -> list[Sequence[GroupCard | PairCard]]:
    return [cards[start : start + PAGE] for start in range(0, len(cards), PAGE)]


def _choose_pairs(pairs: Sequence[Match], kinds: Collection[Kind]) -> list[Match]:
    """Return the pairs of some classes; pairs that were not judged are likely ones."""
    return [match for match in pairs if (match.judgement.kind if match.judgement else "likely") in kinds]


def _make_namer(sources: Collection[Path]) -> Callable[[Path], str]:
    """Return a function that names a file by its path below its source; with several sources, after the source's name."""
    known = set(sources)
    titles = {source: source.name for source in known}
    if len(set(titles.values())) < len(known):
        titles = {source: text_of(source) for source in known}

    def name(path: Path) -> str:
        source = next((folder for folder in path.parents if folder in known), None)
        if source is None:
            return text_of(path)
        below = path.relative_to(source)
        return text_of(below if len(known) == 1 else Path(titles[source]) / below)

    return name


def _make_group_cards(
    groups: Sequence[Sequence[tuple[Path, str, str]]], thumbnail: Thumbnails, name: Callable[[Path], str]
) -> list[GroupCard]:
    """Return cards of groups or series: of each picture the file, a label, and what is known of it."""
    return [
        GroupCard(
            number,
            len(group),
            [
                (thumbnail(str(file)), label, name(file), known)
                for file, label, known in group[:MAX_GROUP_FILES]
            ],
        )
        for number, group in enumerate(groups[:MAX_GROUPS], 1)
    ]


def _describe_link(link: Link[Path], name: Callable[[Path], str]) -> str:
    kind = f": {link.judgement.kind}" if link.judgement else ""
    return f"{name(link.first)} and {name(link.second)}{kind}"


def _facts(row: PlanRow) -> str:
    facts = row.facts
    if facts is None:
        return row.reason
    size = f"{facts.width} × {facts.height}, {facts.size / 1000:,.0f} kB {facts.form}, sharpness {facts.sharpness:.0f}"
    exif = f", {facts.tags} EXIF entries" if facts.tags else ", no EXIF"
    return f"{row.reason}; {size}{exif}{', taken ' + facts.taken if facts.taken else ''}"


def _make_thumbnails(folder: Path, paths: Collection[Path]) -> Thumbnails:
    ordered = sorted(paths)
    return Thumbnails(folder / "images", ImageSet([str(path) for path in ordered], ordered), "p")
