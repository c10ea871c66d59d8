"""Groups of copies from many pairs: the rule of `groups.py`, applied to one connected component of the pairs after the other.

It never looks beyond the contents that pairs connect, directly or through others. Hubs belong to no group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.groups.groups import (
    MAX_GROUP_SIZE,
    MIN_HUB_MATCHES,
    Grouping,
    Hub,
    Link,
    Matching,
    find_hubs,
    group_copies,
)

PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("score", "<f8")])
MAX_COMPONENT_PAIRS = 2**18  # of a larger component, only the pairs with the highest scores are considered
Pairs = NDArray[np.void]  # of type PAIR


def pack_pairs(first: NDArray[np.int64], second: NDArray[np.int64], score: NDArray[np.floating]) -> Pairs:
    """Return pairs PAIR [n] of two contents' numbers [n] and scores −‖q − r‖² [n]."""
    pairs = np.empty(len(first), PAIR)
    pairs["first"], pairs["second"], pairs["score"] = first, second, score
    return pairs


def group_pairs(
    pairs: Pairs,
    contents: int,
    bound: int = MAX_GROUP_SIZE,
    matching: Matching | None = None,
    least_of_hub: int = MIN_HUB_MATCHES,
) -> Grouping:
    """Group the contents that pairs connect, as `group_copies` does with all of them at once.

    Pairs are PAIR [n], of two different contents each, numbered from 0; of a pair that comes again, either way round, the highest
    score counts. Without `matching` only the listed pairs match.
    """
    parts = list(group_components(pairs, contents, bound, matching, least_of_hub))
    cuts, hubs = (cut for part in parts for cut in part.cuts), (hub for part in parts for hub in part.hubs)
    return Grouping(
        sorted(group for part in parts for group in part.groups),
        sorted(cuts, key=lambda cut: (-cut.link.score, cut.link.first, cut.link.second)),
        sorted(hubs, key=lambda hub: (-hub.matches, hub.content)),
        sum(part.pairs for part in parts),
        sum(part.dropped for part in parts),
    )


def group_components(
    pairs: Pairs,
    contents: int,
    bound: int = MAX_GROUP_SIZE,
    matching: Matching | None = None,
    least_of_hub: int = MIN_HUB_MATCHES,
) -> Iterator[Grouping]:
    """Yield what `group_pairs` collects, one component after another, so that no two need be held at once."""
    kept, bounds = _sort_by_component(_keep_once(pairs, contents), contents)
    for start, end in pairwise(bounds.tolist()):
        component, hubs = kept[start:end], list[Hub[int]]()
        if len(component) > MAX_COMPONENT_PAIRS:
            component = component[np.argsort(-component["score"], kind="stable")[:MAX_COMPONENT_PAIRS]]
        links = [Link(*pair) for pair in component.tolist()]
        if len(links) == 1 < bound:
            yield Grouping([[links[0].first, links[0].second]], [], pairs=1)
            continue
        if len(links) >= least_of_hub:
            hubs = find_hubs(links, matching or _match_none, least_of_hub)
            apart = {hub.content for hub in hubs}
            links = [link for link in links if not {link.first, link.second} & apart]
        found, dropped = group_copies(links, matching or _match_none, bound), end - start - len(component)
        yield replace(found, hubs=hubs, pairs=end - start, dropped=dropped)


def _keep_once(pairs: Pairs, contents: int) -> Pairs:
    """Return each pair once, its lower number first, with its highest score, ordered by its numbers."""
    keys = np.minimum(pairs["first"], pairs["second"]) * contents + np.maximum(
        pairs["first"], pairs["second"]
    )
    order = np.lexsort((-pairs["score"], keys))
    keys = keys[order]
    best = np.diff(keys, prepend=-1) != 0
    first, second = np.divmod(keys[best], contents)
    return pack_pairs(first, second, pairs["score"][order[best]])


def _sort_by_component(pairs: Pairs, contents: int) -> tuple[Pairs, NDArray[np.int64]]:
    """Return the pairs of one component after the other, and the row where each begins, followed by the number of pairs."""
    owners = label_components(pairs["first"], pairs["second"], contents)[pairs["first"]]
    order = np.argsort(owners, kind="stable")
    return pairs[order], np.append(np.flatnonzero(np.diff(owners[order], prepend=-1)), len(pairs))


def label_components(first: NDArray[np.int64], second: NDArray[np.int64], contents: int) -> NDArray[np.int64]:
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


def _match_none(pairs: Sequence[tuple[int, int]]) -> list[bool]:
    return [False] * len(pairs)
