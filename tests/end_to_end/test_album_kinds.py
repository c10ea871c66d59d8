"""An album of every kind: by the plan of a search nothing goes that anybody would miss, and what is obvious goes."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.album_kinds import families
from tests.album_kinds.families import FAMILIES
from tests.album_kinds.planned import Planned, find_going, find_removable

SOME = slice(None, None, 3)  # kinds that are looked at in other ways, too; all of them where faults are sought
KINDS = [(family, name) for family, names in FAMILIES.items() for name in names]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Planned]:
    """Makes the albums of a family once."""

    @cache
    def make(family: str) -> Planned:
        return Planned(tmp_path_factory.mktemp(family), FAMILIES[family], 0, "--verify", "1", "--no-views")

    return make


@pytest.mark.parametrize(("family", "name"), KINDS)
def test_nothing_goes_that_anybody_would_miss(plan: Callable[[str], Planned], family: str, name: str) -> None:
    planned = plan(family)
    assert not planned.albums[name].find_wrong(planned.removed)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_obvious_goes(plan: Callable[[str], Planned], family: str) -> None:
    """Of re-saves of drawn pictures most."""
    planned = plan(family)
    missed = [f"{name}: {words}" for name, album in planned.albums.items() for words in album.find_missed(planned.removed)]
    expected = sum(count for album in planned.albums.values() for _, count in album.expected)
    assert len(missed) <= (0.4 * expected if family == "resaves" else 0), missed


@pytest.mark.parametrize("family", ["files", "lookalikes"])
def test_deduplicate_lists_nothing_that_anybody_would_miss(plan: Callable[[str], Planned], family: str) -> None:
    planned = plan(family)
    kinds = list(planned.albums)[SOME]
    going = find_going(planned.folder, kinds)
    assert {name: words for name in kinds if (words := planned.albums[name].find_wrong(going))} == {}


def test_what_find_copies_names_removable_is_what_the_plan_removes(plan: Callable[[str], Planned]) -> None:
    planned = plan("files")
    removable = find_removable(planned.folder, list(planned.albums)[SOME], verify=1, views=False)
    assert removable and removable.items() <= planned.removed.items()


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(1, 5))
def test_albums_of_other_seeds_lose_nothing_by_any_command(tmp_path: Path, seed: int) -> None:
    planned = Planned(tmp_path, families.KINDS, seed)
    for removed in (planned.removed, find_removable(tmp_path), find_going(tmp_path)):
        assert [words for album in planned.albums.values() for words in album.find_wrong(removed)] == []
    missed = [f"{name}: {words}" for name, album in planned.albums.items() for words in album.find_missed(planned.removed)]
    expected = sum(count for name in FAMILIES["resaves"] for _, count in planned.albums[name].expected)
    assert len(missed) <= 0.4 * expected, missed
