"""Groups of copies: chains are cut where their ends do not match, groups are bounded, every link is explained."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_copies.matching.groups.groups import Cut, Link, group_copies


def none_matches(pairs: Sequence[tuple[int, int]]) -> list[bool]:
    return [False] * len(pairs)


def test_copies_that_all_match_are_one_group() -> None:
    found = group_copies([Link(1, 2, -0.1), Link(2, 3, -0.3), Link(3, 1, -0.2)], none_matches)
    assert found.groups == [[1, 2, 3]] and found.cuts == []


def test_a_chain_through_a_collage_is_cut_at_the_weaker_link() -> None:
    picture, collage, other = 1, 2, 3
    found = group_copies([Link(picture, collage, -0.4), Link(other, collage, -0.2)], none_matches)
    assert found.groups == [[2, 3]]
    assert found.cuts == [Cut(Link(1, 2, -0.4), 1, 2, "ends")]


def test_a_collage_does_not_join_two_groups_of_copies() -> None:
    def within(members: range, score: float) -> list[Link[int]]:
        return [Link(a, b, score) for a in members for b in members if a < b]

    links = [*within(range(3), -0.1), *within(range(10, 13), -0.1), *(Link(99, number, -0.5) for number in (0, 1, 2, 10, 11, 12))]
    found = group_copies(links, none_matches)
    assert sorted(group for group in found.groups) == [[0, 1, 2, 99], [10, 11, 12]]
    assert [(cut.matching, cut.compared) for cut in found.cuts] == [(3, 12)]


def test_pairs_that_the_search_did_not_list_are_asked_about() -> None:
    asked: list[tuple[int, int]] = []

    def all_match(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        asked.extend(pairs)
        return [True] * len(pairs)

    found = group_copies([Link(1, 2, -0.1), Link(2, 3, -0.2)], all_match)
    assert found.groups == [[1, 2, 3]] and asked == [(1, 3)]


def test_a_missing_pair_among_many_keeps_a_copy_in() -> None:
    links = [Link(0, n, -0.1 * n) for n in (1, 2, 3)] + [Link(1, 2, -0.1), Link(1, 3, -0.4)]
    assert group_copies(links, none_matches).groups[0] == [0, 1, 2, 3]


def test_a_group_has_a_bound() -> None:
    links = [Link(a, b, -0.1) for a in range(6) for b in range(a + 1, 6)]
    found = group_copies(links, none_matches, bound=4)
    assert sorted(len(group) for group in found.groups) == [2, 4]
    assert found.cuts[0].reason == "bound"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(-2, 0)), max_size=40), st.integers(2, 6))
def test_every_content_is_in_one_group_and_every_link_is_within_one_or_cut(raw: list[tuple[int, int, float]], bound: int) -> None:
    links = [Link(a, b, score) for a, b, score in raw if a != b]
    found = group_copies(links, none_matches, bound)
    members = [content for group in found.groups for content in group]
    assert len(members) == len(set(members))
    assert all(2 <= len(group) <= bound for group in found.groups)
    place = {content: row for row, group in enumerate(found.groups) for content in group}
    for link in links:
        inside = place.get(link.first, -link.first - 1) == place.get(link.second, -link.second - 1)
        assert inside or found.cuts
    for group in found.groups:
        pairs = {frozenset((link.first, link.second)) for link in links}
        degree = [sum(frozenset((a, b)) in pairs for b in group) for a in group]
        assert min(degree) >= 1


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_links_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = [Link(a, b, -float(rng.random())) for a in range(8) for b in range(a + 1, 8) if rng.random() < 0.5]
    shuffled = [links[row] for row in rng.permutation(len(links))]
    assert group_copies(links, none_matches) == group_copies(shuffled, none_matches)
