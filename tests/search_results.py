"""A folder of results as a search of match.py writes it, without a network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.plan import write_plan
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.index.store import add_files, digest_of, open_store
from image_copies.matching.knowledge import Knowledge, list_pairs
from image_copies.matching.matches import Match, Matches, write_matches_csv
from image_copies.matching.results import SearchNotes, write_notes
from image_copies.matching.verification.edits import Comparison
from image_copies.matching.verification.judgement import Judgement

CERTAIN = Judgement("certain", "the pixels agree", 98)
ALIKE = Comparison(np.eye(3), step=(1.0, 1.0), compressed=(True, True))


def know_alike(digests: Mapping[Path, bytes], facts: Mapping[Path, Facts], pairs: Sequence[Match]) -> Knowledge:
    """What is known of pairs of which neither file looks edited."""
    knowledge = Knowledge(digests, facts, list_pairs(pairs))
    knowledge.comparer.compare = lambda one, other: ALIKE  # type: ignore[method-assign]
    knowledge.comparer.find_made = lambda one, other, found: None  # type: ignore[method-assign]
    return knowledge


def know_all_alike(members: Sequence[Facts], judge: Callable[[Path, Path], Judgement] = lambda *pair: CERTAIN) -> Knowledge:
    """What is known of files that all match each other, and of which none looks edited."""
    facts = {each.path: each for each in members}
    digests = {path: digest_of(path) for path in facts}
    pairs = [Match(one, other, -0.1, None, judgement=judge(one, other)) for one, other in combinations(facts, 2)]
    return know_alike(digests, facts, pairs)


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
        add_files(store, digests, {digest: np.ones(2, np.float32) for digest in digests.values()})
    write_matches_csv(folder / "matches.csv", Matches(list(pairs), -0.5, len(pictures), len(pictures), [], verified=True))
    facts = {path: picture_facts(path) for path in pictures}
    knowledge = know_alike(digests, facts, pairs)

    rows = [row for number, group in enumerate(groups, 1) for row in plan_group(number, group, knowledge, KeepSettings())]
    write_plan(folder / "plan.csv", rows)
    write_notes(folder, SearchNotes((), (), threshold=-0.5))
