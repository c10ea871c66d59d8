"""A folder of results as a search of match.py writes it, without a network."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.plan import PlanRow, plan_group, write_plan
from image_copies.matching.index.store import Content, add_files, digest_of, open_store
from image_copies.matching.matches import Match, Matches, write_matches_csv
from image_copies.matching.results.folder import SearchNotes, write_notes
from image_copies.matching.verification.judgement import Judgement

CERTAIN = Judgement("certain", "the pixels agree", 98)


def write_results(folder: Path, pairs: Sequence[Match], groups: Sequence[Sequence[Path]]) -> None:
    """Write an index of the pictures, the pairs, the notes, and a plan that keeps the largest picture of each group.

    Args:
        folder: The folder of the results.
        pairs: The pairs, best first.
        groups: The pictures of each group; of those that are no pair, nothing is planned. Pairs without a judgement are certain.
    """
    pairs = [replace(pair, judgement=pair.judgement or CERTAIN) for pair in pairs]
    pictures = sorted({path for pair in pairs for path in (pair.query, pair.reference)})
    digests = {path: digest_of(path) for path in pictures}
    with open_store(folder / "index", "a network", 2) as store:
        add_files(store, digests, [Content(digest, np.ones(2, np.float32)) for digest in digests.values()])
    write_matches_csv(folder / "matches.csv", Matches(list(pairs), -0.5, len(pictures), len(pictures), [], verified=True))
    listed = {frozenset((pair.query, pair.reference)): pair for pair in pairs}

    def score(one: Path, other: Path) -> float | None:
        pair = listed.get(frozenset((one, other)))
        return None if pair is None else pair.score

    def judge(one: Path, other: Path) -> Judgement:
        return listed[frozenset((one, other))].judgement or CERTAIN

    def plan(number: int, group: Sequence[Path]) -> list[PlanRow]:
        facts = [picture_facts(path) for path in group]
        return plan_group(number, facts, digests, "largest", [], lambda path: False, score, judge)

    rows = [row for number, group in enumerate(groups, 1) for row in plan(number, group)]
    write_plan(folder / "plan.csv", rows)
    write_notes(folder, SearchNotes(threshold=-0.5))
