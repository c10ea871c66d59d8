"""Albums of every kind in one folder per seed: nothing goes that anybody would miss, and what is obvious goes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.album_kinds.families import FAMILIES, KINDS
from tests.album_kinds.planned import Planned, find_going, find_removable
from tests.faults.harness import share_of

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("seed", range(1, 1 + share_of(4)))
def test_albums_lose_nothing(tmp_path: Path, seed: int, ledger: Callable[[str, int, list[str], float], None]) -> None:
    begun = time.monotonic()
    planned = Planned(tmp_path, KINDS, seed)
    said = {"plan": planned.removed, "find_copies": find_removable(tmp_path), "deduplicate": find_going(tmp_path)}
    wrong = [
        f"{name}, seed {seed}, by {outlet}: {words}"
        for name, album in planned.albums.items()
        for outlet, removed in said.items()
        for words in album.find_wrong(removed)
    ]
    ledger(f"albums of a kind, seed {seed}: wrong removals", len(planned.albums), wrong, time.monotonic() - begun)
    missed = [f"{name}: {words}" for name, album in planned.albums.items() for words in album.find_missed(planned.removed)]
    expected = sum(count for name in FAMILIES["resaves"] for _, count in planned.albums[name].expected)
    assert len(missed) <= 0.4 * expected, missed
