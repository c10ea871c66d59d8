"""Groups of one connected component after the other: those of all pairs at once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from image_copies.matching.groups import components
from image_copies.matching.groups.components import PAIR, group_pairs, label_components, pack_pairs
from image_copies.matching.groups.grouped import group_files
from image_copies.matching.groups.groups import Link, find_hubs, group_copies
from image_copies.matching.matches import Match


def draw_pairs(
    seed: int, contents: int = 300, count: int = 400
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Draw pairs, many of them within small families, some of them across."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, contents, count)
    second = np.where(rng.random(count) < 0.8, first // 4 * 4 + rng.integers(0, 4, count), rng.integers(0, contents, count))
    apart = first != second
    return first[apart], second[apart], -rng.random(int(apart.sum())).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_all_pairs_at_once(seed: int) -> None:
    pairs = draw_pairs(seed)
    best: dict[tuple[int, int], float] = {}
    for first, second, score in zip(*(column.tolist() for column in pairs), strict=True):
        key = min(first, second), max(first, second)
        best[key] = max(score, best.get(key, -np.inf))
    links = [Link(*key, score) for key, score in best.items()]
    hubs = {hub.content for hub in find_hubs(links, lambda asked: [False] * len(asked), 8)}
    wanted = group_copies([link for link in links if not {link.first, link.second} & hubs], lambda asked: [False] * len(asked), 3)
    found = group_pairs(pack_pairs(*pairs), 300, bound=3, least_of_hub=8)
    assert found.groups == sorted(wanted.groups) and len(found.groups) > 20
    assert found.cuts == wanted.cuts
    assert (found.pairs, found.dropped, {hub.content for hub in found.hubs}) == (len(best), 0, hubs)


def test_of_a_component_with_too_many_pairs_the_best_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "MAX_COMPONENT_PAIRS", 2)
    pairs = pack_pairs(np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([-0.1, -0.9, -0.2]))
    found = group_pairs(pairs, 4)
    assert found.groups == [[0, 1], [2, 3]]
    assert found.dropped == 1


@pytest.mark.parametrize("seed", range(3))
def test_files_are_grouped_as_all_their_pairs_at_once(seed: int) -> None:
    drawn = list(zip(*(column.tolist() for column in draw_pairs(seed)), strict=True))
    numbered = {Path(f"/{number:03d}.jpg"): b"%03d" % number for number in range(300)}
    matches = [Match(Path(f"/{one:03d}.jpg"), Path(f"/{other:03d}.jpg"), score, None) for one, other, score in drawn]

    def score(asked: Sequence[tuple[bytes, bytes]]) -> NDArray[np.float64]:
        return np.array([-float((int(one) + int(other)) % 3) for one, other in asked])

    def matching(asked: Sequence[tuple[int, int]]) -> list[bool]:
        return [(one + other) % 3 == 0 for one, other in asked]

    best = {frozenset(link[:2]): Link(*link) for link in sorted(drawn, key=lambda link: link[2])}  # each pair once
    links = list(best.values())
    hubs = find_hubs(links, matching, 8)
    apart = {hub.content for hub in hubs}
    wanted = group_copies([link for link in links if not {link.first, link.second} & apart], matching, 4)
    found = group_files(matches, numbered, score, 0.0, [], 4, least_of_hub=8)
    assert [[int(path.stem) for path in group] for group in found.groups] == wanted.groups
    ends = [(int(cut.link.first.stem), int(cut.link.second.stem), cut.matching, cut.compared, cut.reason) for cut in found.cuts]
    assert ends == [(cut.link.first, cut.link.second, cut.matching, cut.compared, cut.reason) for cut in wanted.cuts]
    assert [(int(hub.content[0].stem), hub.matches, hub.related) for hub in found.hubs] == [
        (hub.content, hub.matches, hub.related) for hub in hubs
    ]
    assert len(wanted.groups) > 20 and len(wanted.cuts) > 20


def test_no_pairs_make_no_groups() -> None:
    found = group_pairs(np.empty(0, PAIR), 5)
    assert (found.groups, found.cuts, found.hubs, found.pairs, found.dropped) == ([], [], [], 0, 0)


@pytest.mark.parametrize(("contents", "pairs"), [(1, 0), (50, 20), (3000, 2000), (3000, 9000)])
def test_components_are_those_of_scipy(contents: int, pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    first, second = rng.integers(0, contents, (2, pairs))
    expected = connected_components(coo_array((np.ones(pairs), (first, second)), (contents, contents)), directed=False)[1]
    lowest = np.unique(expected, return_index=True)[1]
    assert np.array_equal(label_components(first, second, contents), lowest[expected])


def test_a_long_chain_is_one_component() -> None:
    chain = np.random.default_rng(0).permutation(20_000)
    assert not label_components(chain[:-1], chain[1:], len(chain)).any()
