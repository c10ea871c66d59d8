"""Groups from pairs in many files: those of all pairs at once, whatever the number of files and parts."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from data.errors import UserError
from submissions.copies import sharded
from submissions.copies.groups import Link, group_copies
from submissions.copies.hubs import find_hubs
from submissions.copies.sharded import group_shards, write_pairs_file


def draw_pairs(
    seed: int, contents: int = 300, count: int = 400
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Draw pairs, many of them within small families, some of them across."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, contents, count)
    second = np.where(rng.random(count) < 0.8, first // 4 * 4 + rng.integers(0, 4, count), rng.integers(0, contents, count))
    apart = first != second
    return first[apart], second[apart], -rng.random(int(apart.sum())).astype(np.float32)


def write_shards(
    folder: Path, pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]], shards: int
) -> list[Path]:
    paths = [folder / f"{shards}-{number}.npy" for number in range(shards)]
    first, second, score = pairs
    for number, path in enumerate(paths):
        write_pairs_file(path, first[number::shards], second[number::shards], score[number::shards])
    return paths


def as_lists(members: NDArray[np.int64], firsts: NDArray[np.int64]) -> list[list[int]]:
    return [members[one:other].tolist() for one, other in zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shards", "part"), [(1, 2**20), (7, 50)])
def test_groups_are_those_of_all_pairs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, shards: int, part: int
) -> None:
    pairs = draw_pairs(seed)
    best: dict[tuple[int, int], float] = {}
    for first, second, score in zip(*(column.tolist() for column in pairs), strict=True):
        key = min(first, second), max(first, second)
        best[key] = max(score, best.get(key, -np.inf))
    links = [Link(*key, score) for key, score in best.items()]
    hubs = {hub.content for hub in find_hubs(links, lambda asked: [False] * len(asked), 8)}
    wanted = group_copies([link for link in links if not {link.first, link.second} & hubs], lambda asked: [False] * len(asked), 3)
    monkeypatch.setattr(sharded, "PAIRS_PER_PART", part)
    found = group_shards(write_shards(tmp_path, pairs, shards), 300, bound=3, least_of_hub=8, scratch=tmp_path)
    assert as_lists(found.members, found.firsts) == sorted(group.members for group in wanted.groups)
    assert {tuple(pair) for pair in found.weakest.tolist()} == {
        (group.weakest.first, group.weakest.second, group.weakest.score) for group in wanted.groups if group.weakest
    }
    assert found.cuts.tolist() == sorted((cut.link.first, cut.link.second, cut.link.score) for cut in wanted.cuts)
    assert (found.pairs, found.dropped, found.hubs.tolist()) == (len(best), 0, sorted(hubs))
    assert max(np.diff(found.firsts)) <= 3
    assert len(list(tmp_path.iterdir())) == shards, "nothing is left behind"


def test_a_pair_found_from_one_side_only_is_no_mutual_one(tmp_path: Path) -> None:
    first, second = np.array([0, 1, 2, 4, 4]), np.array([1, 0, 3, 5, 5])
    write_pairs_file(tmp_path / "a.npy", first[:2], second[:2], np.array([-0.2, -0.1], np.float32))
    write_pairs_file(tmp_path / "b.npy", first[2:], second[2:], np.array([-0.1, -0.1, -0.2], np.float32))
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    assert as_lists(*(lambda found: (found.members, found.firsts))(group_shards(paths, 6))) == [[0, 1], [2, 3], [4, 5]]
    mutual = group_shards(paths, 6, mutual=True)
    assert as_lists(mutual.members, mutual.firsts) == [[0, 1]]
    assert mutual.weakest["score"].tolist() == [np.float32(-0.1)]


def test_of_a_component_with_too_many_pairs_the_best_are_considered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "MAX_COMPONENT_PAIRS", 2)
    write_pairs_file(tmp_path / "a.npy", np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([-0.1, -0.9, -0.2], np.float32))
    found = group_shards([tmp_path / "a.npy"], 4)
    assert as_lists(found.members, found.firsts) == [[0, 1], [2, 3]]
    assert found.dropped == 1


def test_no_pairs_make_no_groups(tmp_path: Path) -> None:
    nothing = np.zeros(0, np.int64)
    write_pairs_file(tmp_path / "a.npy", nothing, nothing, np.zeros(0, np.float32))
    found = group_shards([tmp_path / "a.npy"], 5)
    assert found.firsts.tolist() == [0]
    assert not len(found.members)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no pairs", "is not a file of pairs"), (None, "names contents outside of 0 … 1")],
)
def test_files_that_are_no_pairs_of_this_index_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.npy"
    if content is None:
        write_pairs_file(path, np.array([0]), np.array([2]), np.array([-0.1], np.float32))
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        group_shards([path], 2)
