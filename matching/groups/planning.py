"""Groups of files from matching pairs, and the plan for them."""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..files.facts import Facts, picture_facts, read_content_facts
from ..files.keeping import KeepSettings
from ..files.originals import PLANNED_TOGETHER
from ..files.plan import PlanRow
from ..index.verdicts import Verdicts
from ..knowledge import Knowledge, list_pairs
from ..matches import Match, Matches, PairScorer
from ..pairs import PairJudge, share_cores
from .group_plan import plan_group
from .groups import MAX_GROUP_SIZE, MIN_HUB_MATCHES, PAIR, Hub, group_components
from .series import list_joining

READER_THREADS = 2
# pixels of a picture from which on a group is planned alone: a comparison takes gigabytes
LARGE = 30_000_000


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
    around = defaultdict[Path, list[PlanRow]](list)
    for row in planned:
        if row.file == row.kept or (row.judgement is not None and row.judgement.is_certain):
            around[row.kept].append(row)
    found = sorted((rows for rows in around.values() if len(rows) > 1), key=lambda rows: -len(rows))
    groups = []
    for number, rows in enumerate(found, 1):
        rows.sort(key=lambda row: row.file != row.kept)
        groups.append(CopyGroup(replace(row, group=number) for row in rows))
    return groups


@dataclass(frozen=True)
class Grouped:
    """Groups of files and the plan for them.

    Attributes:
        groups: The files of each, the largest first, each by path.
        flat: Pictures without content: a single colour or a plain gradient.
        hubs: The files of contents that belong to no group.
        dropped: Pairs that were not considered, because too many are connected with each other.
        rows: What the plan says of each file.
    """

    groups: list[list[Path]]
    flat: Sequence[Path] = ()
    hubs: Sequence[Hub[list[Path]]] = ()
    dropped: int = 0
    rows: Sequence[PlanRow] = ()

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
    empty = set(flat)
    return [match for match in pairs if match.score == 0 or not empty.intersection(match.files)]


def group_files(
    pairs: Iterable[Match],
    digests: Mapping[Path, bytes],
    score_pairs: PairScorer,
    threshold: float,
    flat: Collection[Path],
    decided: Mapping[frozenset[bytes], bool],
    bound: int = MAX_GROUP_SIZE,
    least_of_hub: int = MIN_HUB_MATCHES,
) -> Grouped:
    """Group the files that the pairs connect, by the rule of `groups.py`; a content counts once, however many files have it.

    Flat pictures are grouped only with byte-identical files. What a person said of a pair goes before its score.
    """
    contents = sorted(set(digests.values()))
    numbers = {digest: number for number, digest in enumerate(contents)}
    files = defaultdict[int, list[Path]](list)
    for path, digest in sorted(digests.items()):
        files[numbers[digest]].append(path)
    empty, links = {digests[path] for path in flat}, []
    for match in pairs:
        one, other = digests[match.query], digests[match.reference]
        if one != other and not {one, other} & empty:
            links.append((numbers[one], numbers[other], match.score))

    def matching(asked: Sequence[tuple[int, int]]) -> list[bool]:
        named = [(contents[first], contents[second]) for first, second in asked]
        scored = zip(named, score_pairs(named), strict=True)
        return [decided.get(frozenset(pair), bool(score >= threshold)) for pair, score in scored]

    parts = list(group_components(np.array(links, PAIR), len(contents), bound, matching, least_of_hub))
    joined = [group for part in parts for group in part.groups]
    alone = files.keys() - {number for group in joined for number in group}
    groups = [sorted(path for number in group for path in files[number]) for group in joined]
    groups += [files[number] for number in alone if len(files[number]) > 1]
    hubs = [Hub(files[hub.content], hub.matches, hub.related) for part in parts for hub in part.hubs]
    return Grouped(
        sorted(groups, key=lambda group: (-len(group), group)),
        sorted(flat),
        sorted(hubs, key=lambda hub: (-hub.matches, hub.content)),
        sum(part.dropped for part in parts),
    )


def make_groups(
    found: Matches,
    facts: dict[Path, Facts],
    score_pairs: PairScorer,
    judge: PairJudge,
    decided: Mapping[frozenset[bytes], bool],
    settings: KeepSettings,
) -> Grouped:
    """Group the copies that were found and plan each group; facts that have been read already are not read again.

    By pairs of digests `decided` says whether a person called them copies.
    """
    digests = found.digests
    threshold = found.threshold if found.threshold is not None else 0.0
    flat = [path for path, fact in facts.items() if fact.flat]
    grouped = group_files(list_joining(found.pairs, facts), digests, score_pairs, threshold, flat, decided)
    files = [path for group in grouped.groups for path in group]
    facts = facts | read_facts([path for path in files if path not in facts], judge.verdicts)

    def score(one: Path, other: Path) -> float | None:
        found_score = float(score_pairs([(digests[one], digests[other])])[0])
        return found_score if found_score >= threshold else None

    knowledge = Knowledge(
        digests=digests,
        facts=facts,
        listed=list_pairs(found.pairs),
        score=score,
        decide=lambda one, other: decided.get(frozenset((digests[one], digests[other]))),
        judge=judge,
    )
    large = threading.Lock()

    def plan(numbered: tuple[int, list[Path]]) -> list[PlanRow]:
        alone = any(facts[path].width * facts[path].height > LARGE for path in numbered[1])
        with large if alone else nullcontext():
            return plan_group(*numbered, knowledge, settings)

    with share_cores(PLANNED_TOGETHER) as pool:
        planned = pool.map(plan, enumerate(grouped.groups, 1))
        every = tqdm(planned, "choosing what to keep", len(grouped.groups), leave=False, unit="group")
        return replace(grouped, rows=[row for rows in every for row in rows])
