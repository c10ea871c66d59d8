"""Groups of files from matching pairs: byte-identical files count as one content; flat pictures and hubs are separated."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.groups.components import group_pairs, pack_pairs
from image_copies.matching.groups.groups import MIN_HUB_MATCHES, Cut, Hub, Link
from image_copies.matching.matches import Match

PairScorer = Callable[[Sequence[tuple[bytes, bytes]]], NDArray[np.float64]]


@dataclass(frozen=True)
class FileGroups:
    """The result of grouping files."""

    groups: list[list[Path]]  # largest first, each by path
    cuts: list[Cut[Path]]
    flat: list[Path]  # pictures without content: a single colour or a plain gradient
    hubs: list[Hub[list[Path]]] = field(default_factory=list)
    dropped: int = 0  # pairs that were not considered, because too many are connected with each other


def group_files(
    pairs: Iterable[Match],
    digests: Mapping[Path, bytes],
    score_pairs: PairScorer,
    threshold: float,
    flat: Iterable[Path],
    bound: int,
    rejected: frozenset[frozenset[bytes]] = frozenset(),
    accepted: Mapping[bytes, frozenset[bytes]] | None = None,
    least_of_hub: int = MIN_HUB_MATCHES,
) -> FileGroups:
    """Group the files that the pairs connect, by the rule of `groups.py`; a content counts once, however many files have it.

    Flat pictures are grouped only with byte-identical files. Pairs of digests in `rejected` do not match, those in `accepted` do;
    a group has at most `bound` contents.
    """
    called = accepted or {}
    flat = sorted(set(flat))
    empty = {digests[path] for path in flat if path in digests}
    names: dict[bytes, int] = {digest: number for number, digest in enumerate(sorted(set(digests.values())))}
    by_number = {number: digest for digest, number in names.items()}
    files: dict[int, list[Path]] = defaultdict(list)
    for path, digest in digests.items():
        files[names[digest]].append(path)
    links: dict[tuple[int, int], Link[int]] = {}  # the best one of each pair, whichever of both was the query
    for match in pairs:
        one, other = digests.get(match.query), digests.get(match.reference)
        if one is not None and other is not None and one != other and not {one, other} & empty:
            link = Link(names[one], names[other], match.score, match.judgement)
            links[_pair_of(link)] = min(
                link, links.get(_pair_of(link), link), key=lambda link: (-link.score, link.first)
            )

    def matching(asked: Sequence[tuple[int, int]]) -> list[bool]:
        named = [(by_number[first], by_number[second]) for first, second in asked]
        scores = score_pairs(named)
        return [
            pair[1] in called.get(pair[0], frozenset())
            or (bool(score >= threshold) and frozenset(pair) not in rejected)
            for pair, score in zip(named, scores, strict=True)
        ]

    def named_link(link: Link[int]) -> Link[Path]:
        link = links[_pair_of(link)]
        return Link(min(files[link.first]), min(files[link.second]), link.score, link.judgement)

    def named_cut(cut: Cut[int]) -> Cut[Path]:
        return Cut(named_link(cut.link), cut.matching, cut.compared, cut.reason)

    table = np.array([(link.first, link.second, link.score) for link in links.values()], np.float64).reshape(
        -1, 3
    )
    packed = pack_pairs(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])
    found = group_pairs(packed, len(names), bound, matching, least_of_hub)
    joined = [sorted(path for member in group for path in files[member]) for group in found.groups]
    placed = {member for group in found.groups for member in group}
    same_bytes = [sorted(paths) for number, paths in files.items() if len(paths) > 1 and number not in placed]
    groups = sorted(joined + same_bytes, key=lambda group: (-len(group), group))
    named_hubs = [Hub(sorted(files[hub.content]), hub.matches, hub.related) for hub in found.hubs]
    return FileGroups(groups, [named_cut(cut) for cut in found.cuts], flat, named_hubs, found.dropped)


def _pair_of(link: Link[int]) -> tuple[int, int]:
    return min(link.first, link.second), max(link.first, link.second)
