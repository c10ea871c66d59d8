"""Groups of copies from matches, and the plan for their files."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.keeping import KeepRule
from image_copies.matching.files.originals import EditComparer
from image_copies.matching.files.plan import REMOVED, PlanRow, plan_group
from image_copies.matching.groups.grouped import FileGroups, PairScorer, group_files
from image_copies.matching.groups.groups import MAX_GROUP_SIZE
from image_copies.matching.groups.hubs import MIN_HUB_MATCHES
from image_copies.matching.matches import Exclusions, Found, Match
from image_copies.matching.verification.judgement import Judgement
from image_copies.matching.verification.pairs import KnownPair, PairJudge

READER_THREADS = 2


def _is_neither(path: Path) -> bool:
    return False


@dataclass(frozen=True)
class GroupSettings:
    """How groups are made and planned."""

    keep: KeepRule = "largest"
    preferred: Sequence[str] = ()  # patterns of paths of files to keep before others
    folders: Sequence[Path] = ()  # in order of preference, for the rule "folder-order"
    is_protected: Callable[[Path], bool] = _is_neither  # must not be touched
    is_reference: Callable[[Path], bool] = _is_neither  # stays because it is a reference
    bound: int = MAX_GROUP_SIZE  # contents in a group at most
    hub_matches: int = MIN_HUB_MATCHES  # of a hub at least


@dataclass(frozen=True)
class Grouped:
    """Groups of files and the plan for them."""

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


def drop_flat(pairs: Sequence[Match], flat: Collection[Path]) -> list[Match]:
    """Return the pairs but for those of pictures that show nothing; the same bytes are a pair all the same."""
    return [match for match in pairs if match.score == 0 or (match.query not in flat and match.reference not in flat)]


def make_groups(
    found: Found,
    facts: dict[Path, Facts],
    score_pairs: PairScorer,
    judge: PairJudge,
    exclusions: Exclusions,
    settings: GroupSettings,
) -> Grouped:
    """Group what was found and plan each group; facts that have been read already are not read again."""
    threshold = found.matches.threshold if found.matches.threshold is not None else 0.0
    flat = [path for path, fact in facts.items() if fact.flat]
    grouped = group_files(
        *(found.matches.pairs, found.digests, score_pairs, threshold, flat, settings.bound),
        rejected=exclusions.rejected,
        accepted=exclusions.accepted,
        least_of_hub=settings.hub_matches,
    )
    facts = facts | read_facts([path for group in grouped.groups for path in group.files if path not in facts])
    listed = {(match.query, match.reference): match.score for match in found.matches.pairs}
    judged = {frozenset((m.query, m.reference)): m.judgement for m in found.matches.pairs if m.judgement is not None}

    def pair_score(one: Path, other: Path) -> float | None:
        if exclusions.same_folder(one, other):
            return None
        known = listed.get((one, other), listed.get((other, one)))
        if known is not None:
            return known
        pair = found.digests[one], found.digests[other]
        score = float(score_pairs([pair])[0])
        return score if score >= threshold and frozenset(pair) not in exclusions.rejected else None

    def pair_judgement(one: Path, other: Path) -> Judgement:
        return judged.get(frozenset((one, other))) or judge.judge(KnownPair(other, one))

    def found_certain(one: Path, other: Path) -> bool:
        known = judged.get(frozenset((one, other)))
        return known is not None and known.kind in REMOVED

    def called(one: PlanRow, other: PlanRow) -> bool | None:
        accepted = exclusions.accepted.get(bytes.fromhex(one.sha256), frozenset())
        return True if bytes.fromhex(other.sha256) in accepted else None

    compare = EditComparer(judge).compare
    rows = [
        row
        for number, group in enumerate(tqdm(grouped.groups, desc="choosing what to keep", unit="group", leave=False), 1)
        for row in plan_group(
            number,
            [facts[path] for path in group.files],
            found.digests,
            settings.keep,
            settings.folders,
            settings.is_protected,
            pair_score,
            pair_judgement,
            settings.is_reference,
            called,
            compare,
            settings.preferred,
            found_certain,
        )
    ]
    return Grouped(grouped, rows)
