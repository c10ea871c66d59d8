"""Groups of copies from pairs that match.

Copies are not transitive: A matches a collage of A and B, and so does B, but A does not match B. The rule:

1. Every content starts as its own group. Matching pairs are considered in the order of their scores, highest first.
2. Two groups that a pair connects are merged if more than half of all pairs between them match by themselves. Of a chain
   A – collage – B only the higher-scoring link stays: of the two pairs between {A, collage} and {B}, one matches, which is half.
3. A group grows to at most `bound` contents.

Contents that match many others which do not match each other are hubs: a logo that a thousand pictures bear, a contact sheet. A
hub is nobody's copy, but each of its pairs looks like one: in a group with the picture that it matches best, it would have that
picture removed.

The rule is applied to one connected component of the pairs after the other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Int64s

T = TypeVar("T")
PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("score", "<f8")])
MAX_COMPONENT_PAIRS = 2**18  # of a larger component, only the pairs with the highest scores are considered
MAX_GROUP_SIZE = 200  # contents
MIN_MATCHING_SHARE = 0.5  # groups are merged if more than this share of the pairs between them match
MIN_HUB_MATCHES = 50  # contents that a hub matches
MAX_RELATED_SHARE = 0.1  # share 0…1 of the pairs among a hub's matches that match each other
MAX_SAMPLED_PAIRS = 500  # pairs among its matches that are compared
Pairs = NDArray[np.void]  # of type PAIR
Link = tuple[int, int, float]  # two contents that match, by their numbers, and their score −‖q − r‖²
Matching = Callable[[Sequence[tuple[int, int]]], Sequence[bool]]  # which of these pairs of contents match


@dataclass(frozen=True)
class Hub(Generic[T]):
    """A content, or the files of one, that matches many others."""

    content: T
    matches: int
    related: float  # share 0…1 of the pairs among those that match each other


@dataclass(frozen=True)
class Grouping:
    """The groups of a component."""

    groups: list[list[int]]  # each ascending
    hubs: Sequence[Hub[int]] = ()  # in no group; the one with the most matches first
    dropped: int = 0  # pairs that were not considered, because too many are connected with each other


def match_none(pairs: Sequence[tuple[int, int]]) -> list[bool]:
    """Say of pairs that were not listed that they do not match."""
    return [False] * len(pairs)


def pack_pairs(first: Int64s, second: Int64s, score: NDArray[np.floating]) -> Pairs:
    """Return pairs PAIR [n] of two contents' numbers [n] and scores −‖q − r‖² [n]."""
    pairs = np.empty(len(first), PAIR)
    pairs["first"] = first
    pairs["second"] = second
    pairs["score"] = score
    return pairs


def group_components(
    pairs: Pairs,
    contents: int,
    bound: int = MAX_GROUP_SIZE,
    matching: Matching = match_none,
    least_of_hub: int = MIN_HUB_MATCHES,
) -> Iterator[Grouping]:
    """Group the contents that pairs connect, as `group_copies` does, and yield one component after another.

    Pairs are PAIR [n], of two different contents each, numbered from 0; of a pair that comes again, either way round, the highest
    score counts. `matching` is asked about pairs that are not listed.
    """
    kept = keep_once(pairs, contents)
    owners = label_components(kept["first"], kept["second"], contents)[kept["first"]]
    order = np.argsort(owners, kind="stable")
    begins = np.flatnonzero(np.diff(owners[order], prepend=-1)).tolist()
    for start, end in pairwise([*begins, len(kept)]):
        component = kept[order[start:end]]
        if len(component) > MAX_COMPONENT_PAIRS:
            component = component[np.argsort(-component["score"], kind="stable")[:MAX_COMPONENT_PAIRS]]
        links: list[Link] = component.tolist()
        if len(links) == 1 < bound:
            yield Grouping([list(links[0][:2])])
            continue
        hubs = find_hubs(links, matching, least_of_hub) if len(links) >= least_of_hub else []
        apart = {hub.content for hub in hubs}
        joining = [link for link in links if apart.isdisjoint(link[:2])]
        yield Grouping(group_copies(joining, matching, bound), hubs, end - start - len(component))


def keep_once(pairs: Pairs, contents: int) -> Pairs:
    """Return each pair once, its lower number first, with its highest score, ordered by its numbers."""
    one, other = pairs["first"], pairs["second"]
    keys = np.minimum(one, other) * contents + np.maximum(one, other)
    order = np.lexsort((-pairs["score"], keys))
    keys = keys[order]
    best = np.diff(keys, prepend=-1) != 0
    first, second = np.divmod(keys[best], contents)
    return pack_pairs(first, second, pairs["score"][order[best]])


def label_components(first: Int64s, second: Int64s, contents: int) -> Int64s:
    """Return for each content the lowest number in its component, int64 [contents], of pairs of numbers [n].

    Every root takes the lowest root next to it as its parent, until no pair connects two: about log₂(contents) rounds at most.
    """
    parents = np.arange(contents)
    while True:
        one, other = parents[first], parents[second]
        apart = one != other
        if not apart.any():
            return parents
        first, second, one, other = first[apart], second[apart], one[apart], other[apart]
        np.minimum.at(parents, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(grandparents := parents[parents], parents):
            parents = grandparents


def group_copies(links: Iterable[Link], matching: Matching, bound: int = MAX_GROUP_SIZE) -> list[list[int]]:
    """Group the contents that the links connect, by the rule above; `matching` is asked only about other pairs.

    Returned are the groups, the largest first, each ascending.
    """
    ordered = sorted(links, key=lambda link: (-link[2], link))
    known = {_order_pair(first, second): True for first, second, _ in ordered}
    group_of = {content: [content] for link in ordered for content in link[:2]}
    refused = set[frozenset[tuple[int, int]]]()

    def fit(one: list[int], other: list[int]) -> bool:
        if len(one) + len(other) > bound:
            return False
        pairs = [_order_pair(first, second) for first in one for second in other]
        unknown = [pair for pair in pairs if pair not in known]
        if unknown:
            known.update(zip(unknown, map(bool, matching(unknown)), strict=True))
        return sum(known[pair] for pair in pairs) > MIN_MATCHING_SHARE * len(pairs)

    grown = True
    while grown:  # a group that has grown may be merged by a link that was refused before
        grown = False
        for first, second, _ in ordered:
            one, other = group_of[first], group_of[second]
            both = frozenset([(one[0], len(one)), (other[0], len(other))])
            if one is other or both in refused:
                continue
            if not fit(one, other):
                refused.add(both)
                continue
            grown = True
            one += other
            group_of |= dict.fromkeys(other, one)
    unique = {id(members): sorted(members) for members in group_of.values()}.values()
    groups = (members for members in unique if len(members) > 1)
    return sorted(groups, key=lambda members: (-len(members), members))


def _order_pair(first: int, second: int) -> tuple[int, int]:
    return min(first, second), max(first, second)


def find_hubs(links: Iterable[Link], matching: Matching, least: int = MIN_HUB_MATCHES) -> list[Hub[int]]:
    """Find the contents that match at least `least` others of which hardly any match each other, most matches first."""
    neighbours = defaultdict[int, set[int]](set)
    for first, second, _ in links:
        neighbours[first].add(second)
        neighbours[second].add(first)
    hubs = []
    for content, others in sorted(neighbours.items()):
        if len(others) < max(least, 2):
            continue
        asked = _sample_pairs(sorted(others))
        unknown = [(one, other) for one, other in asked if other not in neighbours[one]]
        related = (len(asked) - len(unknown) + sum(map(bool, matching(unknown)))) / len(asked)
        if related <= MAX_RELATED_SHARE:
            hubs.append(Hub(content, len(others), related))
    return sorted(hubs, key=lambda hub: (-hub.matches, hub.content))


def _sample_pairs(contents: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs of different contents, or a sample of MAX_SAMPLED_PAIRS that is the same at every call."""
    pairs = np.array(contents)[np.transpose(np.triu_indices(len(contents), 1))]
    if len(pairs) > MAX_SAMPLED_PAIRS:
        pairs = pairs[np.random.default_rng(0).choice(len(pairs), MAX_SAMPLED_PAIRS, replace=False)]
    return [(first, second) for first, second in pairs.tolist()]
