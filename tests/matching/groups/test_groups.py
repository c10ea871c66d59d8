"""Groups of copies: chains are cut where their ends do not match, groups are bounded."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from image_copies.matching.files.plan import Action, PlanRow
from image_copies.matching.groups import groups
from image_copies.matching.groups.groups import (
    PAIR,
    Hub,
    find_hubs,
    group_components,
    group_copies,
    label_components,
    match_none,
    pack_pairs,
)
from image_copies.matching.groups.planning import group_files, list_copies
from image_copies.matching.matches import Match
from image_copies.matching.output import Output
from image_copies.matching.show.report import _write_hubs
from image_copies.matching.verification.judgement import Judgement, Kind


def test_copies_that_all_match_are_one_group() -> None:
    assert group_copies([(1, 2, -0.1), (2, 3, -0.3), (3, 1, -0.2)], match_none) == [[1, 2, 3]]


def test_a_chain_through_a_collage_is_cut_at_the_weaker_link() -> None:
    picture, collage, other = 1, 2, 3
    assert group_copies([(picture, collage, -0.4), (other, collage, -0.2)], match_none) == [[2, 3]]


def test_a_collage_does_not_join_two_groups_of_copies() -> None:
    def within(members: range, score: float) -> list[tuple[int, int, float]]:
        return [(a, b, score) for a in members for b in members if a < b]

    links = [*within(range(3), -0.1), *within(range(10, 13), -0.1), *((99, number, -0.5) for number in (0, 1, 2, 10, 11, 12))]
    assert group_copies(links, match_none) == [[0, 1, 2, 99], [10, 11, 12]]


def test_pairs_that_the_search_did_not_list_are_asked_about() -> None:
    asked: list[tuple[int, int]] = []

    def all_match(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        asked.extend(pairs)
        return [True] * len(pairs)

    assert group_copies([(1, 2, -0.1), (2, 3, -0.2)], all_match) == [[1, 2, 3]] and asked == [(1, 3)]


def test_a_missing_pair_among_many_keeps_a_copy_in() -> None:
    links = [(0, n, -0.1 * n) for n in (1, 2, 3)] + [(1, 2, -0.1), (1, 3, -0.4)]
    assert group_copies(links, match_none)[0] == [0, 1, 2, 3]


def test_a_group_has_a_bound() -> None:
    links = [(a, b, -0.1) for a in range(6) for b in range(a + 1, 6)]
    assert sorted(map(len, group_copies(links, match_none, bound=4))) == [2, 4]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.floats(-2, 0)), max_size=40), st.integers(2, 6))
def test_every_content_is_in_one_group_at_most_with_one_that_it_matches(raw: list[tuple[int, int, float]], bound: int) -> None:
    links = [(a, b, score) for a, b, score in raw if a != b]
    found = group_copies(links, match_none, bound)
    members = [content for group in found for content in group]
    assert len(members) == len(set(members))
    assert all(2 <= len(group) <= bound for group in found)
    pairs = {frozenset(link[:2]) for link in links}
    for group in found:
        assert all(any(frozenset((a, b)) in pairs for b in group) for a in group)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_links_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = [(a, b, -float(rng.random())) for a in range(8) for b in range(a + 1, 8) if rng.random() < 0.5]
    shuffled = [links[row] for row in rng.permutation(len(links))]
    assert group_copies(links, match_none) == group_copies(shuffled, match_none)


LOGO = 1000


def star(count: int) -> list[tuple[int, int, float]]:
    return [(LOGO, other, -0.1) if other % 2 else (other, LOGO, -0.1) for other in range(count)]


def test_what_matches_many_unrelated_contents_is_a_hub() -> None:
    assert find_hubs(star(60), match_none) == [Hub(LOGO, 60, 0.0)]
    assert find_hubs(star(49), match_none) == [] and find_hubs(star(10), match_none, least=10) == [Hub(LOGO, 10, 0.0)]


def test_an_original_with_many_copies_of_each_other_is_none() -> None:
    def all_match(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        return [True] * len(pairs)

    assert find_hubs(star(60), all_match) == []
    chain = [(number, number + 1, -0.1) for number in range(59)]  # what is listed need not be asked about
    asked: list[tuple[int, int]] = []

    def notes(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        asked.extend(pairs)
        return [False] * len(pairs)

    (hub,) = find_hubs(star(60) + chain, notes)
    assert hub.content == LOGO and 0 < hub.related < 0.1
    assert not {frozenset(pair) for pair in asked} & {frozenset(link[:2]) for link in chain}


def test_a_hub_joins_no_group_but_its_copies_by_bytes_do(tmp_path: Path) -> None:
    logo, twin = Path("/logo.png"), Path("/twin.png")
    photos = [Path(f"/photo-{number:02d}.jpg") for number in range(20)]
    digests = {logo: b"logo", twin: b"logo"} | {path: path.name.encode() for path in photos}
    pairs = [Match(photo, logo, -0.3 - number / 100, None) for number, photo in enumerate(photos)]
    pairs += [Match(photos[0], photos[1], -0.4, None), Match(logo, twin, 0.0, 0.0)]

    def score_pairs(asked: Sequence[tuple[bytes, bytes]]) -> NDArray[np.float64]:
        return np.full(len(asked), -2.0)

    found = group_files(pairs, digests, score_pairs, -0.5, [], {}, least_of_hub=10)
    assert found.groups == [[logo, twin], photos[:2]]
    assert [(hub.content, hub.matches) for hub in found.hubs] == [([logo, twin], 20)]
    joined = group_files(pairs, digests, score_pairs, -0.5, [], {}, least_of_hub=100)
    assert any({logo, photos[0]} <= set(group) for group in joined.groups)  # what it is kept out of groups for
    _write_hubs(tmp_path / "hubs.csv", found.hubs, Output())
    assert pd.read_csv(tmp_path / "hubs.csv")["file"].tolist() == ["/logo.png", "/twin.png"]


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
    links = [(*key, score) for key, score in best.items()]
    hubs = {hub.content for hub in find_hubs(links, match_none, 8)}
    wanted = group_copies([link for link in links if not set(link[:2]) & hubs], match_none, 3)
    found = list(group_components(pack_pairs(*pairs), 300, bound=3, least_of_hub=8))
    groups = [group for part in found for group in part.groups]
    assert sorted(groups) == sorted(wanted) and len(groups) > 20
    assert {hub.content for part in found for hub in part.hubs} == hubs and not any(part.dropped for part in found)


def test_of_a_component_with_too_many_pairs_the_best_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_COMPONENT_PAIRS", 2)
    pairs = pack_pairs(np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([-0.1, -0.9, -0.2]))
    (found,) = group_components(pairs, 4)
    assert sorted(found.groups) == [[0, 1], [2, 3]] and found.dropped == 1


@pytest.mark.parametrize("seed", range(3))
def test_files_are_grouped_as_all_their_pairs_at_once(seed: int) -> None:
    drawn = list(zip(*(column.tolist() for column in draw_pairs(seed)), strict=True))
    numbered = {Path(f"/{number:03d}.jpg"): b"%03d" % number for number in range(300)}
    matches = [Match(Path(f"/{one:03d}.jpg"), Path(f"/{other:03d}.jpg"), score, None) for one, other, score in drawn]

    def score(asked: Sequence[tuple[bytes, bytes]]) -> NDArray[np.float64]:
        return np.array([-float((int(one) + int(other)) % 3) for one, other in asked])

    def matching(asked: Sequence[tuple[int, int]]) -> list[bool]:
        return [(one + other) % 3 == 0 for one, other in asked]

    best = {frozenset(link[:2]): link for link in sorted(drawn, key=lambda link: link[2])}  # each pair once
    links = list(best.values())
    hubs = find_hubs(links, matching, 8)
    apart = {hub.content for hub in hubs}
    wanted = group_copies([link for link in links if not set(link[:2]) & apart], matching, 4)
    found = group_files(matches, numbered, score, 0.0, [], {}, 4, least_of_hub=8)
    assert [[int(path.stem) for path in group] for group in found.groups] == wanted
    assert [(int(hub.content[0].stem), hub.matches, hub.related) for hub in found.hubs] == [
        (hub.content, hub.matches, hub.related) for hub in hubs
    ]
    assert len(wanted) > 20


def test_no_pairs_make_no_groups() -> None:
    assert not list(group_components(np.empty(0, PAIR), 0))


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


def make_row(name: str, kept: str, action: Action, kind: Kind | None = None) -> PlanRow:
    judgement = None if kind is None else Judgement(kind, "seen", 90)
    return PlanRow(1, action, Path(name), Path(kept), "", None, None, False, "00" * 32, judgement=judgement)


def test_a_group_holds_what_is_certain_and_names_what_would_go() -> None:
    rows = [
        make_row("a", "a", "keep"),
        make_row("same", "a", "remove", "same file"),
        make_row("captioned", "a", "review", "certain"),
        make_row("linked", "a", "leave", "same file"),
        make_row("collage", "a", "leave"),
        *(make_row(f"{kind} {number}", "a", "review", kind) for number, kind in enumerate(get_args(Kind)[2:])),
    ]
    (group,) = list_copies(rows)
    assert group == [Path(name) for name in ("a", "same", "captioned", "linked")] and group.removable == [Path("same")]
    assert list_copies([row for row in rows if row.judgement is None or row.judgement.kind == "likely"]) == []


def test_what_stays_beside_the_kept_file_has_a_group_of_its_own() -> None:
    rows = [
        make_row("a", "a", "keep"),
        make_row("shot", "shot", "keep"),
        make_row("shot smaller", "shot", "remove", "certain"),
        make_row("shot same", "shot", "remove", "same file"),
        make_row("a smaller", "a", "remove", "certain"),
    ]
    first, second = list_copies(rows)
    assert first == [Path(name) for name in ("shot", "shot smaller", "shot same")] and second == [Path("a"), Path("a smaller")]
    assert [row.group for row in first.rows + second.rows] == [1, 1, 1, 2, 2]
