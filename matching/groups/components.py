"""Groups of copies from any number of pairs, which come in blocks, on one machine and in bounded memory.

The rule is that of `groups.py`. It never looks beyond the contents that pairs connect, directly or through others: it can be
applied to one connected component after the other. A union-find over all pairs takes 16 bytes for each content, and only a part
of the pairs is in memory at a time.

1. The pairs are distributed over files by their two contents, so that both directions of a pair meet. Each pair is kept once,
   with the higher of its scores; with `mutual`, only if it was found from both sides.
2. The pairs that are kept are joined into components, and distributed over files by component.
3. Components are grouped file by file. Hubs (`hubs.py`) belong to no group.

match.py groups what it found in this way (`grouped.py`).
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.groups.groups import MAX_GROUP_SIZE, Cut, Link, Matching, group_copies
from image_copies.matching.groups.hubs import MIN_HUB_MATCHES, Hub, find_hubs

PAIR = np.dtype([("first", "<i8"), ("second", "<i8"), ("score", "<f8")])
PAIRS_PER_PART = 2**20  # pairs that are in memory at a time, on average
MAX_COMPONENT_PAIRS = 2**18  # of a larger component, only the pairs with the highest scores are considered
Pairs = NDArray[np.void]  # of type PAIR


@dataclass(frozen=True)
class ComponentGrouping:
    """The result of grouping.

    Attributes:
        members: int64 [m], the contents of all groups, group after group, ascending within each.
        firsts: int64 [groups + 1], where each group starts in `members`, and m.
        weakest: PAIR [groups], the pair with the lowest score of those that merged each group.
        cuts: The highest-scoring pair of any two groups that it did not merge, highest score first.
        hubs: Contents that match many others which do not match each other, the one with the most matches first; they are in no
            group.
        pairs: Number of different pairs that were considered.
        dropped: Number of pairs that were not, because their component has more than MAX_COMPONENT_PAIRS.
    """

    members: NDArray[np.int64]
    firsts: NDArray[np.int64]
    weakest: Pairs
    cuts: list[Cut[int]]
    hubs: list[Hub]
    pairs: int
    dropped: int


def pack_pairs(first: NDArray[np.int64], second: NDArray[np.int64], score: NDArray[np.floating]) -> Pairs:
    """Return pairs PAIR [n] of two contents' numbers [n] and scores −‖q − r‖² [n]."""
    pairs = np.empty(len(first), PAIR)
    pairs["first"], pairs["second"], pairs["score"] = first, second, score
    return pairs


def group_pairs(
    blocks: Iterable[Pairs],
    count: int,
    contents: int,
    mutual: bool = False,
    bound: int = MAX_GROUP_SIZE,
    matching: Matching | None = None,
    least_of_hub: int = MIN_HUB_MATCHES,
    scratch: Path | None = None,
) -> ComponentGrouping:
    """Group the contents that pairs connect, as `group_copies` does with all of them at once.

    Args:
        blocks: The pairs, PAIR [n], of two different contents each.
        count: Number of pairs in all blocks.
        contents: Number of contents; those of the pairs are numbered from 0.
        mutual: Consider only pairs that were found from both sides.
        bound: Maximum number of contents in a group.
        matching: Tells which other pairs match; None if only the listed ones do.
        least_of_hub: Contents that a hub matches at least.
        scratch: Folder for 48 bytes per pair while it works; None for the system's.

    Raises:
        OSError: the disk of the folder is full.
    """
    parts = max(1, -(-count // PAIRS_PER_PART))
    with tempfile.TemporaryDirectory(prefix="groups-", dir=scratch) as name:
        folder = Path(name)
        met = _distribute(blocks, lambda pairs: _mix(*_order(pairs)) % parts, parts, folder, "met")
        parent = np.arange(contents)
        kept = [folder / f"kept-{part}" for part in range(parts)]
        for source, target in zip(met, kept, strict=True):
            pairs = _keep_once(np.fromfile(source, PAIR), mutual)
            _append_pairs(target, pairs)
            _join(parent, pairs["first"], pairs["second"])
            source.unlink()
        roots = _find_roots(parent, np.arange(contents))
        del parent
        components = _distribute(
            (np.fromfile(path, PAIR) for path in kept),
            lambda pairs: _mix(roots[pairs["first"]]) % parts,
            parts,
            folder,
            "component",
        )
        del kept
        groups = _Groups()
        for path in components:
            groups.add(np.fromfile(path, PAIR), roots, bound, matching or _match_none, least_of_hub)
        return groups.collect()


class _Groups:
    """Collects the groups of one component after the other."""

    def __init__(self) -> None:
        self._members: list[NDArray[np.int64]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._weakest: list[Pairs] = []
        self._cuts: list[Cut[int]] = []
        self._hubs: list[Hub] = []
        self._pairs = self._dropped = 0

    def add(self, pairs: Pairs, roots: NDArray[np.int64], bound: int, matching: Matching, least_of_hub: int) -> None:
        """Group the components of these pairs, all of whose pairs are among them."""
        self._pairs += len(pairs)
        owner = roots[pairs["first"]]
        pairs = pairs[np.argsort(owner, kind="stable")]
        starts = np.flatnonzero(np.diff(np.sort(owner), prepend=-1))
        counts = np.diff(np.append(starts, len(pairs)))
        alone = pairs[starts[counts == 1]]
        self._append(np.stack([alone["first"], alone["second"]], 1).ravel(), np.full(len(alone), 2), alone)
        for start, count in zip(starts[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
            self._add_component(pairs[start : start + count], bound, matching, least_of_hub)

    def _add_component(self, pairs: Pairs, bound: int, matching: Matching, least_of_hub: int) -> None:
        if len(pairs) > MAX_COMPONENT_PAIRS:
            best = np.argsort(-pairs["score"], kind="stable")[:MAX_COMPONENT_PAIRS]
            self._dropped += len(pairs) - len(best)
            pairs = pairs[best]
        links = [Link(*pair) for pair in pairs.tolist()]
        if len(pairs) >= least_of_hub:
            hubs = find_hubs(links, matching, least_of_hub)
            apart = {hub.content for hub in hubs}
            self._hubs += hubs
            links = [link for link in links if not {link.first, link.second} & apart]
        grouping = group_copies(links, matching, bound)
        if grouping.groups:
            members = np.concatenate([np.array(group.members, np.int64) for group in grouping.groups])
            weakest = [group.weakest for group in grouping.groups if group.weakest is not None]
            self._append(members, np.array([len(group.members) for group in grouping.groups]), _pack(weakest))
        self._cuts += grouping.cuts

    def _append(self, members: NDArray[np.int64], sizes: NDArray[np.int64], weakest: Pairs) -> None:
        self._members.append(members)
        self._sizes.append(sizes)
        self._weakest.append(weakest)

    def collect(self) -> ComponentGrouping:
        """Return all groups, by their first member."""
        members = np.concatenate([np.zeros(0, np.int64), *self._members])
        sizes = np.concatenate([np.zeros(0, np.int64), *self._sizes])
        weakest = np.concatenate([np.empty(0, PAIR), *self._weakest])
        order = np.argsort(members[np.cumsum(sizes) - sizes], kind="stable")
        begins = (np.cumsum(sizes) - sizes)[order]
        firsts = np.concatenate([[0], np.cumsum(sizes[order])])
        within = np.arange(len(members)) - np.repeat(firsts[:-1], sizes[order])
        return ComponentGrouping(
            members[np.repeat(begins, sizes[order]) + within],
            firsts,
            weakest[order],
            sorted(self._cuts, key=lambda cut: (-cut.link.score, cut.link.first, cut.link.second)),
            sorted(self._hubs, key=lambda hub: (-hub.matches, hub.content)),
            self._pairs,
            self._dropped,
        )


def _distribute(
    blocks: Iterable[Pairs], choose: Callable[[Pairs], NDArray[np.int64]], parts: int, folder: Path, name: str
) -> list[Path]:
    """Write the pairs to files by the part 0 … parts − 1 that `choose` gives each."""
    paths = [folder / f"{name}-{part}" for part in range(parts)]
    for path in paths:
        path.touch()
    for pairs in blocks:
        part = choose(pairs)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(parts + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            _append_pairs(paths[number], pairs[order[bounds[number] : bounds[number + 1]]])
    return paths


def _append_pairs(path: Path, pairs: Pairs) -> None:
    """Append pairs to a file; `tofile` says nothing where the disk is full and the rest of its buffer is lost.

    Raises:
        OSError: the disk is full.
    """
    with path.open("ab") as file:
        file.write(pairs.tobytes())


def _order(pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.minimum(pairs["first"], pairs["second"]), np.maximum(pairs["first"], pairs["second"])


def _mix(*numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a hash of each number or pair of numbers, at least 0."""
    mixed = np.zeros(len(numbers[0]), np.uint64)
    for number in numbers:
        mixed = (mixed ^ number.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(1)).astype(np.int64)


def _keep_once(pairs: Pairs, mutual: bool) -> Pairs:
    """Return each pair once, its lower number first, with its highest score; with `mutual` only pairs in both directions."""
    turned = pairs["first"] > pairs["second"]
    low, high = _order(pairs)
    order = np.lexsort((-pairs["score"], high, low))
    low, high, turned, score = low[order], high[order], turned[order], pairs["score"][order]
    new = (np.diff(low, prepend=-1) != 0) | (np.diff(high, prepend=-1) != 0)
    starts = np.flatnonzero(new)
    kept = np.empty(len(starts), PAIR)
    kept["first"], kept["second"], kept["score"] = low[starts], high[starts], score[starts]
    if not mutual or not len(kept):
        return kept
    there = np.add.reduceat(turned.astype(np.int64), starts)
    both = (there > 0) & (there < np.diff(np.append(starts, len(turned))))
    return kept[both]


def _find_roots(parent: NDArray[np.int64], contents: NDArray[np.int64]) -> NDArray[np.int64]:
    roots = parent[contents]
    while True:
        above = parent[roots]
        if np.array_equal(above, roots):
            return roots
        roots = above


def _join(parent: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
    """Join the components of many pairs: of two roots the higher one gets the lower one as its parent, until none differ."""
    while len(first):
        one, other = _find_roots(parent, first), _find_roots(parent, second)
        parent[first], parent[second] = one, other  # shortens the way for the next
        apart = one != other
        first, second, one, other = first[apart], second[apart], one[apart], other[apart]
        np.minimum.at(parent, np.maximum(one, other), np.minimum(one, other))


def _pack(links: Iterable[Link[int]]) -> Pairs:
    return np.array([(link.first, link.second, link.score) for link in links], PAIR)


def _match_none(pairs: Sequence[tuple[int, int]]) -> list[bool]:
    return [False] * len(pairs)
