"""A picture that matches many others which do not match each other belongs to no group, but by its bytes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from image_copies.matching.groups.grouped import group_files
from image_copies.matching.groups.groups import Hub, Link, find_hubs
from image_copies.matching.matches import Match
from image_copies.matching.results.tables import write_hubs_csv

LOGO = 1000


def none_matches(pairs: Sequence[tuple[int, int]]) -> list[bool]:
    return [False] * len(pairs)


def star(count: int) -> list[Link[int]]:
    return [Link(LOGO, other, -0.1) if other % 2 else Link(other, LOGO, -0.1) for other in range(count)]


def test_what_matches_many_unrelated_contents_is_a_hub() -> None:
    assert find_hubs(star(60), none_matches) == [Hub(LOGO, 60, 0.0)]
    assert find_hubs(star(49), none_matches) == [] and find_hubs(star(10), none_matches, least=10) == [Hub(LOGO, 10, 0.0)]


def test_an_original_with_many_copies_of_each_other_is_none() -> None:
    def all_match(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        return [True] * len(pairs)

    assert find_hubs(star(60), all_match) == []
    chain = [Link(number, number + 1, -0.1) for number in range(59)]  # what is listed need not be asked about
    asked: list[tuple[int, int]] = []

    def notes(pairs: Sequence[tuple[int, int]]) -> list[bool]:
        asked.extend(pairs)
        return [False] * len(pairs)

    (hub,) = find_hubs(star(60) + chain, notes)
    assert hub.content == LOGO and 0 < hub.related < 0.1
    assert not {frozenset(pair) for pair in asked} & {frozenset((link.first, link.second)) for link in chain}


def test_a_hub_joins_no_group_but_its_copies_by_bytes_do(tmp_path: Path) -> None:
    logo, twin = Path("/logo.png"), Path("/twin.png")
    photos = [Path(f"/photo-{number:02d}.jpg") for number in range(20)]
    digests = {logo: b"logo", twin: b"logo"} | {path: path.name.encode() for path in photos}
    pairs = [Match(photo, logo, -0.3 - number / 100, None) for number, photo in enumerate(photos)]
    pairs += [Match(photos[0], photos[1], -0.4, None), Match(logo, twin, 0.0, 0.0)]

    def score_pairs(asked: Sequence[tuple[bytes, bytes]]) -> NDArray[np.float64]:
        return np.full(len(asked), -2.0)

    found = group_files(pairs, digests, score_pairs, -0.5, [], 200, least_of_hub=10)
    assert found.groups == [[logo, twin], photos[:2]]
    assert [(hub.content, hub.matches) for hub in found.hubs] == [([logo, twin], 20)] and found.cuts == []
    joined = group_files(pairs, digests, score_pairs, -0.5, [], 200, least_of_hub=100)
    assert any({logo, photos[0]} <= set(group) for group in joined.groups)  # what it is kept out of groups for
    write_hubs_csv(tmp_path / "hubs.csv", found.hubs)
    assert pd.read_csv(tmp_path / "hubs.csv")["file"].tolist() == ["/logo.png", "/twin.png"]
