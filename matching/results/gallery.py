"""A page of matches and groups of copies, with pictures, that a browser opens from disk."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.files import whole_folder
from image_copies.data.images import ImageSet
from image_copies.data.names import text_of
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.grouped import FileGroups
from image_copies.matching.matches import Matches, Rule, describe_count, describe_match
from image_copies.submissions.report.rendering import render
from image_copies.submissions.report.thumbnails import Thumbnails

TEMPLATE = Path(__file__).parent / "templates" / "matches.html.jinja"
MAX_MATCHES = 300  # shown on the page
MAX_GROUPS, MAX_GROUP_FILES = 200, 12  # shown on the page


@dataclass(frozen=True)
class GroupCard:
    """A group as the page shows it: each of its pictures with the thumbnail's path, label, name and a line of facts."""

    number: int
    files: int
    weakest: float | None
    weakest_names: str
    pictures: list[tuple[str | None, str, str, str]]


def write_matches_page(
    folder: Path, matches: Matches, rule: Rule, groups: FileGroups | None = None, rows: Sequence[PlanRow] = ()
) -> Path:
    """Write `index.html` with thumbnails of the groups and the best matches, atomically, and return its path.

    Without groups none are shown.

    Raises:
        UserError: when the disk is full.
    """
    best = matches.pairs[:MAX_MATCHES]
    with whole_folder(folder) as temporary:
        files = {file for match in best for file in (match.query, match.reference)}
        thumbnails = _make_thumbnails(temporary, files | {row.file for row in rows if row.group <= MAX_GROUPS})
        above = _folder([match.query for match in best]), _folder([match.reference for match in best])
        cards = [
            (
                thumbnails(str(match.query)),
                thumbnails(str(match.reference)),
                match,
                describe_match(match).replace("-", "−"),
                text_of(match.query.relative_to(above[0])),
                text_of(match.reference.relative_to(above[1])),
            )
            for match in best
        ]
        page = render(
            TEMPLATE,
            groups=_group_cards(groups, rows, thumbnails) if groups else [],
            all_groups=len(groups.groups) if groups else 0,
            cuts=[(text_of(c.link.first), text_of(c.link.second), c) for c in groups.cuts[:MAX_MATCHES]] if groups else [],
            hubs=[(text_of(hub.files[0]), hub) for hub in groups.hubs[:MAX_MATCHES]] if groups else [],
            flat=[text_of(path) for path in groups.flat[:MAX_MATCHES]] if groups else [],
            counted=describe_count(matches),
            matches=matches,
            rule=rule,
            folders=[text_of(folder) for folder in above],
            shown=cards,
            unreadable=[text_of(path) for path in matches.unreadable[:MAX_MATCHES]],
        )
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"


def _group_cards(groups: FileGroups, rows: Sequence[PlanRow], thumbnail: Thumbnails) -> list[GroupCard]:
    planned: dict[int, list[PlanRow]] = {}
    for row in rows:
        planned.setdefault(row.group, []).append(row)
    cards = []
    for number, group in enumerate(groups.groups[:MAX_GROUPS], 1):
        weakest = group.weakest
        names = f"{text_of(weakest.first)} and {text_of(weakest.second)}" if weakest else ""
        pictures: list[tuple[str | None, str, str, str]] = [
            (thumbnail(str(row.file)), row.action, text_of(row.file), _facts(row)) for row in planned[number][:MAX_GROUP_FILES]
        ]
        cards.append(GroupCard(number, len(group.files), weakest.score if weakest else None, names, pictures))
    return cards


def _facts(row: PlanRow) -> str:
    facts = row.facts
    if facts is None:
        return row.reason
    size = f"{facts.width} × {facts.height}, {facts.size / 1000:,.0f} kB {facts.form}, sharpness {facts.sharpness:.0f}"
    exif = f", {facts.tags} EXIF entries" if facts.tags else ", no EXIF"
    return f"{size}{exif}{', taken ' + facts.taken if facts.taken else ''}; {row.reason}"


def _make_thumbnails(folder: Path, paths: Collection[Path]) -> Thumbnails:
    ordered = sorted(paths)
    return Thumbnails(folder / "images", ImageSet([str(path) for path in ordered], ordered), "p")


def _folder(paths: list[Path]) -> Path:
    """Return the deepest folder that contains all files, which captions need not repeat."""
    return Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
