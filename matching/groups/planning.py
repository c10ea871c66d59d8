"""Groups of copies from matches, the plan for their files, and the CSV files of both."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from image_copies.data.names import text_of
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.keeping import KeepRule
from image_copies.matching.files.plan import PlanRow, plan_group, write_plan
from image_copies.matching.groups.components import MAX_COMPONENT_PAIRS
from image_copies.matching.groups.grouped import FileGroups, group_files, write_cuts_csv, write_groups_csv, write_hubs_csv
from image_copies.matching.groups.groups import MAX_GROUP_SIZE
from image_copies.matching.groups.hubs import MIN_HUB_MATCHES
from image_copies.matching.matches import Match
from image_copies.matching.output import Output
from image_copies.matching.results.folder import CUTS, GROUPS, HUBS, PLAN
from image_copies.matching.search import Exclusions, Found, PairScores

READER_THREADS = 2


def _is_unprotected(path: Path) -> bool:
    return False


@dataclass(frozen=True)
class Grouping:
    """How groups are made and planned.

    Attributes:
        keep: Which file of a group to keep.
        folders: Folders in order of preference, for the rule "folder-order".
        is_protected: Tells whether a file must not be touched.
        bound: Maximum number of contents in a group.
        hub_matches: Minimum number of matches of a hub, which belongs to no group (`matching/groups/hubs.py`).
    """

    keep: KeepRule = "largest"
    folders: Sequence[Path] = ()
    is_protected: Callable[[Path], bool] = _is_unprotected
    bound: int = MAX_GROUP_SIZE
    hub_matches: int = MIN_HUB_MATCHES


@dataclass(frozen=True)
class Grouped:
    """Groups of files and the plan for them.

    Attributes:
        groups: The groups, cut links and pictures that show nothing.
        rows: The plan, group by group.
    """

    groups: FileGroups
    rows: list[PlanRow]


def read_facts(paths: Sequence[Path]) -> dict[Path, Facts]:
    """Read the facts of many pictures; returns them by path."""
    with (
        ThreadPoolExecutor(READER_THREADS) as pool,
        tqdm(total=len(paths), desc="comparing files", unit="image", leave=False) as bar,
    ):
        found = {}
        for facts in pool.map(picture_facts, paths):
            found[facts.path] = facts
            bar.update()
    return found


def drop_flat(pairs: Sequence[Match], facts: dict[Path, Facts]) -> list[Match]:
    """Return the pairs but for those of pictures that show nothing; the same bytes are a pair all the same."""
    return [
        match
        for match in pairs
        if match.score == 0 or not any(path in facts and facts[path].flat for path in (match.query, match.reference))
    ]


def make_groups(
    found: Found, facts: dict[Path, Facts], scorer: PairScores, exclusions: Exclusions, grouping: Grouping
) -> Grouped:
    """Group what was found and plan each group.

    Args:
        found: What a search found.
        facts: Facts of the files of the pairs, as far as they have been read.
        scorer: Scores other pairs of the same index.
        exclusions: Pairs that the user decided on, and folders within which nothing is compared.
        grouping: How groups are made and planned.
    """
    threshold = found.matches.threshold if found.matches.threshold is not None else 0.0
    flat = [path for path, fact in facts.items() if fact.flat]
    grouped = group_files(
        *(found.matches.pairs, found.digests, scorer.scores, threshold, flat, grouping.bound),
        rejected=exclusions.rejected,
        accepted=exclusions.accepted,
        least_of_hub=grouping.hub_matches,
    )
    facts = facts | read_facts([path for group in grouped.groups for path in group.files if path not in facts])
    listed = {(match.query, match.reference): match.score for match in found.matches.pairs}

    def pair_score(one: Path, other: Path) -> float | None:
        if exclusions.same_folder(one, other):
            return None
        known = listed.get((one, other), listed.get((other, one)))
        if known is not None:
            return known
        pair = found.digests[one], found.digests[other]
        score = float(scorer.scores([pair])[0])
        return score if score >= threshold and frozenset(pair) not in exclusions.rejected else None

    rows = [
        row
        for number, group in enumerate(grouped.groups, 1)
        for row in plan_group(
            number,
            [facts[path] for path in group.files],
            found.digests,
            grouping.keep,
            grouping.folders,
            grouping.is_protected,
            pair_score,
        )
    ]
    return Grouped(grouped, rows)


def write_grouped(folder: Path, grouped: Grouped, output: Output) -> None:
    """Write groups.csv, cuts.csv, hubs.csv and plan.csv, and say what they hold.

    Args:
        folder: The folder of the results.
        grouped: The groups and their plan.
        output: Where messages go.

    Raises:
        UserError: The disk is full.
    """
    write_groups_csv(folder / GROUPS, grouped.groups.groups, grouped.rows)
    write_cuts_csv(folder / CUTS, grouped.groups.cuts)
    write_plan(folder / PLAN, grouped.rows)
    write_hubs_csv(folder / HUBS, grouped.groups.hubs)
    for number, group in enumerate(grouped.groups.groups, 1):
        kept = next(row.file for row in grouped.rows if row.group == number)
        weakest = group.weakest.score if group.weakest else 0.0
        output.record("group", {"group": number, "files": group.files, "keep": kept, "weakest_score": weakest})
    removed = [row for row in grouped.rows if row.action == "remove"]
    freed = sum(row.facts.size for row in removed if row.facts is not None)
    files = sum(len(group.files) for group in grouped.groups.groups)
    output.say(
        f"{len(grouped.groups.groups)} groups of {files} files: {folder / GROUPS}"
        + (f"; {len(grouped.groups.cuts)} links that join no group: {folder / CUTS}" if grouped.groups.cuts else "")
    )
    if grouped.groups.flat:
        first = grouped.groups.flat[0]
        output.say(f"pictures that show nothing, kept apart: {len(grouped.groups.flat)}, the first is {first}")
    if grouped.groups.dropped:
        output.say(
            f"{grouped.groups.dropped:,} of the lowest-scoring pairs were not considered: more than {MAX_COMPONENT_PAIRS:,} are "
            "connected with each other, as a loose threshold does. A stricter --threshold separates them"
        )
    if hubs := grouped.groups.hubs:
        for hub in hubs:
            output.record("hub", {"files": hub.files, "matches": hub.matches, "related_share": hub.related})
        output.say(
            f"pictures that match many others which do not match each other, kept apart: {folder / HUBS} ({len(hubs)}); "
            f"{text_of(hubs[0].files[0])} matches {hubs[0].matches}"
        )
    output.say(
        f"plan: {folder / PLAN} would remove {len(removed)} files ({freed / 2**20:.1f} MiB); nothing has been touched. "
        "Carry it out with --apply move|hardlink|symlink|delete-to-trash"
    )
