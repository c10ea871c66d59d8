"""Contents that match many others which do not match each other: a logo that a thousand pictures bear, a contact sheet.

Such a hub is nobody's copy, but each of its pairs looks like one: in a group with the picture that it matches best, it would have
that picture removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from image_copies.matching.groups.groups import Link, Matching

MIN_HUB_MATCHES = 50  # contents that a hub matches
MAX_RELATED_SHARE = 0.1  # share 0…1 of the pairs among a hub's matches that match each other
MAX_SAMPLED_PAIRS = 500  # pairs among its matches that are compared


@dataclass(frozen=True)
class Hub:
    """A content that matches many others; `related`: share 0…1 of the pairs among those that match each other."""

    content: int
    matches: int
    related: float


def find_hubs(links: Iterable[Link[int]], matching: Matching, least: int = MIN_HUB_MATCHES) -> list[Hub]:
    """Find the contents that match at least `least` others of which hardly any match each other, most matches first."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    known = set()
    for link in links:
        neighbours[link.first].add(link.second)
        neighbours[link.second].add(link.first)
        known.add(frozenset((link.first, link.second)))
    hubs = []
    for content, others in sorted(neighbours.items()):
        if len(others) < max(least, 2):
            continue
        asked = _sample_pairs(sorted(others))
        unknown = [pair for pair in asked if frozenset(pair) not in known]
        related = (len(asked) - len(unknown) + sum(map(bool, matching(unknown)))) / len(asked)
        if related <= MAX_RELATED_SHARE:
            hubs.append(Hub(content, len(others), related))
    return sorted(hubs, key=lambda hub: (-hub.matches, hub.content))


def _sample_pairs(contents: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs of different contents, or a sample of MAX_SAMPLED_PAIRS that is the same at every call."""
    firsts, seconds = np.triu_indices(len(contents), 1)
    if len(firsts) > MAX_SAMPLED_PAIRS:
        chosen = np.random.default_rng(0).choice(len(firsts), MAX_SAMPLED_PAIRS, replace=False)
        firsts, seconds = firsts[chosen], seconds[chosen]
    return [(contents[first], contents[second]) for first, second in zip(firsts.tolist(), seconds.tolist(), strict=True)]
