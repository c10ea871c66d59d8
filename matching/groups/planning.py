"""Groups of copies from matches, and the plan for their files."""

import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tqdm import tqdm

from image_copies.matching.files.facts import Facts, picture_facts, read_content_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.originals import PLANNED_TOGETHER
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.groups.grouped import FileGroups, PairScorer, group_files
from image_copies.matching.groups.groups import MAX_GROUP_SIZE
from image_copies.matching.groups.series import list_joining
from image_copies.matching.index.verdicts import Verdicts
from image_copies.matching.knowledge import Knowledge, list_pairs
from image_copies.matching.matches import Exclusions, Match, Matches
from image_copies.matching.pairs import PairJudge, share_cores

READER_THREADS = 2
LARGE = 30_000_000  # pixels of a picture from which on a group is planned alone: a comparison takes gigabytes


class CopyGroup(list[Path]):
    """Files of which each is the same as the first, or certainly a copy of it; the first is the one that a plan keeps.

    Attributes:
        rows: What a plan says of each.
    """

    def __init__(self, rows: Iterable[PlanRow]) -> None:
        self.rows = list(rows)
        super().__init__(row.file for row in self.rows)

    @property
    def removable(self) -> list[Path]:
        """Those that a plan would remove: not what it would have looked at, and what is protected, a reference or a link."""
        return [row.file for row in self.rows if row.action == "remove"]


def list_copies(planned: Iterable[PlanRow]) -> list[CopyGroup]:
    """Return the groups of copies of a plan, the largest first, their rows numbered by them, from 1."""
    around: dict[Path, list[PlanRow]] = {}
    for row in planned:
        if row.file == row.kept or (row.judgement is not None and row.judgement.is_certain):
            around.setdefault(row.kept, []).append(row)
    found = [sorted(rows, key=lambda row: row.file != row.kept) for rows in around.values() if len(rows) > 1]
    ordered = enumerate(sorted(found, key=lambda rows: -len(rows)), 1)
    return [CopyGroup(replace(row, group=number) for row in rows) for number, rows in ordered]


@dataclass(frozen=True)
class Grouped:
    """Groups of files and the plan for them."""

    groups: FileGroups
    rows: list[PlanRow]

    @cached_property
    def copies(self) -> list[CopyGroup]:
        """The groups of what is the same, or certainly a copy."""
        return list_copies(self.rows)


def read_facts(paths: Sequence[Path], verdicts: Verdicts) -> dict[Path, Facts]:
    """Read the facts of many pictures; returns them by path."""

    def read(path: Path) -> Facts:
        return picture_facts(
            path, lambda path: verdicts.ask((path,), "facts", (), lambda: read_content_facts(path))
        )

    with ThreadPoolExecutor(READER_THREADS) as pool:
        found = tqdm(pool.map(read, paths), "comparing files", len(paths), leave=False, unit="image")
        return {facts.path: facts for facts in found}


def drop_flat(pairs: Sequence[Match], flat: Collection[Path]) -> list[Match]:
    """Return the pairs but for those of pictures that show nothing; the same bytes are a pair all the same."""
    return [
        match
        for match in pairs
        if match.score == 0 or (match.query not in flat and match.reference not in flat)
    ]


def make_groups(
    found: Matches,
    facts: dict[Path, Facts],
    score_pairs: PairScorer,
    judge: PairJudge,
    exclusions: Exclusions,
    settings: KeepSettings,
) -> Grouped:
    """Group the copies that were found and plan each group; facts that have been read already are not read again."""
    threshold = found.threshold if found.threshold is not None else 0.0
    flat = [path for path, fact in facts.items() if fact.flat]
    grouped = group_files(
        *(list_joining(found.pairs, facts), found.digests, score_pairs, threshold, flat, MAX_GROUP_SIZE),
        rejected=exclusions.rejected,
        accepted=exclusions.accepted,
    )
    facts = facts | read_facts(
        [path for group in grouped.groups for path in group if path not in facts], judge.verdicts
    )

    def score(one: Path, other: Path) -> float | None:
        if exclusions.same_folder(one, other):
            return None
        found_score = float(score_pairs([(found.digests[one], found.digests[other])])[0])
        return found_score if found_score >= threshold else None

    def decide(one: Path, other: Path) -> bool | None:
        return exclusions.decision(found.digests[one], found.digests[other])

    knowledge = Knowledge(
        digests=found.digests,
        facts=facts,
        listed=list_pairs(found.pairs),
        score=score,
        decide=decide,
        judge=judge,
    )
    # reads vectors: threads must not
    score_pairs([(found.digests[path],) * 2 for group in grouped.groups for path in group])
    large = threading.Lock()

    def plan(numbered: tuple[int, list[Path]]) -> list[PlanRow]:
        alone = any(facts[path].width * facts[path].height > LARGE for path in numbered[1])
        with large if alone else nullcontext():
            return plan_group(*numbered, knowledge, settings)

    with share_cores(PLANNED_TOGETHER) as pool:
        planned = pool.map(plan, enumerate(grouped.groups, 1))
        every = tqdm(planned, "choosing what to keep", len(grouped.groups), leave=False, unit="group")
        return Grouped(grouped, [row for rows in every for row in rows])
