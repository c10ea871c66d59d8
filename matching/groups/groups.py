"""Groups of copies from pairs that match.

Copies are not transitive: A matches a collage of A and B, and so does B, but A does not match B. The rule:

1. Every content starts as its own group. Matching pairs are considered in the order of their scores, highest first.
2. Two groups that a pair connects are merged if more than half of all pairs between them match by themselves. Of a chain
   A – collage – B only the higher-scoring link stays: of the two pairs between {A, collage} and {B}, one matches, which is half.
3. A group grows to at most `bound` contents.

A link that merges nothing is reported as a cut, with the counts that decided.

Contents that match many others which do not match each other are hubs: a logo that a thousand pictures bear, a contact sheet. A
hub is nobody's copy, but each of its pairs looks like one: in a group with the picture that it matches best, it would have that
picture removed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

import numpy as np

from image_copies.matching.verification.judgement import Judgement

T = TypeVar("T")
MAX_GROUP_SIZE = 200  # contents
MIN_MATCHING_SHARE = 0.5  # groups are merged if more than this share of the pairs between them match
MIN_HUB_MATCHES = 50  # contents that a hub matches
MAX_RELATED_SHARE = 0.1  # share 0…1 of the pairs among a hub's matches that match each other
MAX_SAMPLED_PAIRS = 500  # pairs among its matches that are compared
Matching = Callable[[Sequence[tuple[int, int]]], Sequence[bool]]  # which of these pairs of contents match


@dataclass(frozen=True, slots=True)
class Link(Generic[T]):
    """Two contents that match, by their numbers, or two files."""

    first: T
    second: T
    score: float  # −‖q − r‖², at most 0
    judgement: Judgement | None = None  # what the pair is by its pixels, where somebody looked


@dataclass(frozen=True)
class Cut(Generic[T]):
    """The highest-scoring link between two groups that were not merged."""

    link: Link[T]
    matching: int  # pairs between the two groups that match; 0 with the reason "bound"
    compared: int  # all pairs between the two groups
    reason: Literal["ends", "bound"]  # at most half of the pairs match; the merged group would be too large


@dataclass(frozen=True)
class Hub(Generic[T]):
    """A content, or the files of one, that matches many others."""

    content: T
    matches: int
    related: float  # share 0…1 of the pairs among those that match each other


@dataclass(frozen=True)
class Grouping:
    """The result of grouping."""

    groups: list[list[int]]  # each ascending
    # the highest-scoring link of any two groups that it did not merge, highest score first
    cuts: list[Cut[int]]
    hubs: list[Hub[int]] = field(default_factory=list)  # in no group; the one with the most matches first
    pairs: int = 0  # different ones that were considered
    dropped: int = 0  # pairs that were not, because too many are connected with each other


def group_copies(links: Iterable[Link[int]], matching: Matching, bound: int = MAX_GROUP_SIZE) -> Grouping:
    """Group the contents that the links connect, by the rule above; `matching` is asked only about other pairs."""
    ordered = sorted(links, key=lambda link: (-link.score, link.first, link.second))
    pairs = _Pairs(ordered, matching)
    group_of = {content: [content] for link in ordered for content in (link.first, link.second)}
    refused: dict[tuple[int, ...], Cut[int]] = {}
    grown = True
    while grown:  # a group that has grown may be merged by a link that was refused before
        grown = False
        for link in ordered:
            one, other = group_of[link.first], group_of[link.second]
            if one is other or (key := _make_key(one, other)) in refused:
                continue
            cut = _find_refusal(link, one, other, pairs, bound)
            if cut is not None:
                refused[key] = cut
                continue
            grown = True
            one.extend(other)
            for content in other:
                group_of[content] = one
    return Grouping(_collect_groups(group_of), _collect_cuts(ordered, group_of, refused))


def find_hubs(links: Iterable[Link[int]], matching: Matching, least: int = MIN_HUB_MATCHES) -> list[Hub[int]]:
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
    return [
        (contents[first], contents[second])
        for first, second in zip(firsts.tolist(), seconds.tolist(), strict=True)
    ]


class _Pairs:
    """Caches which pairs of contents match, so that each pair is compared once."""

    def __init__(self, links: Iterable[Link[int]], matching: Matching) -> None:
        self._known = {_order_pair(link.first, link.second): True for link in links}
        self._matching = matching

    def count(self, one: list[int], other: list[int]) -> int:
        wanted = [_order_pair(first, second) for first in one for second in other]
        unknown = [pair for pair in wanted if pair not in self._known]
        if unknown:
            self._known.update(zip(unknown, map(bool, self._matching(unknown)), strict=True))
        return sum(self._known[pair] for pair in wanted)


def _find_refusal(
    link: Link[int], one: list[int], other: list[int], pairs: _Pairs, bound: int
) -> Cut[int] | None:
    compared = len(one) * len(other)
    if len(one) + len(other) > bound:
        return Cut(link, 0, compared, "bound")
    found = pairs.count(one, other)
    return None if found > MIN_MATCHING_SHARE * compared else Cut(link, found, compared, "ends")


def _collect_groups(group_of: dict[int, list[int]]) -> list[list[int]]:
    unique = {id(members): members for members in group_of.values()}.values()
    return sorted(
        (sorted(members) for members in unique if len(members) > 1),
        key=lambda members: (-len(members), members),
    )


def _collect_cuts(
    links: list[Link[int]], group_of: dict[int, list[int]], refused: dict[tuple[int, ...], Cut[int]]
) -> list[Cut[int]]:
    """Return the highest-scoring link between any two final groups, with the counts that refused it."""
    cuts: dict[tuple[int, ...], Cut[int]] = {}
    for link in links:
        one, other = group_of[link.first], group_of[link.second]
        if one is not other and (key := _make_key(one, other)) not in cuts:
            cuts[key] = replace(refused[key], link=link)
    return list(cuts.values())


def _order_pair(first: int, second: int) -> tuple[int, int]:
    return min(first, second), max(first, second)


def _make_key(one: list[int], other: list[int]) -> tuple[int, ...]:
    """Return a key for two groups at their current sizes, so that a group that has grown is considered again."""
    return min((one[0], len(one), other[0], len(other)), (other[0], len(other), one[0], len(one)))
