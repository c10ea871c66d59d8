"""What sets share is counted by content."""

from pathlib import Path

from image_copies.matching.matches import Match
from image_copies.matching.show.leakage import Share, clean_lists, find_holders, share_pictures

TRAIN, TEST = Path("/train"), Path("/test")
FILES = {TRAIN / name: digest for name, digest in (("a", b"1"), ("b", b"2"), ("c", b"3"), ("d", b"3"))}
FILES |= {TEST / "x": b"1", TEST / "y": b"4", TEST / "z": b"1"}
PAIRS = [Match(TEST / "y", TRAIN / "b", -0.1, None), Match(TEST / "x", TRAIN / "a", 0.0, None)]
SETS = {path: path.parent for path in FILES}
HOLDERS = find_holders(PAIRS, FILES, SETS)


def test_sets_are_compared_by_content() -> None:
    assert share_pictures(SETS, HOLDERS) == [
        Share(TEST, TRAIN, 3, 3, 1.0),
        Share(TEST, TEST, 2, 3, 2 / 3),
        Share(TRAIN, TEST, 2, 4, 0.5),
        Share(TRAIN, TRAIN, 2, 4, 0.5),
    ]


def test_earlier_sets_lose_what_later_ones_hold() -> None:
    clean = clean_lists(SETS, HOLDERS, [TRAIN, TEST])
    assert clean == {TRAIN: [TRAIN / "c", TRAIN / "d"], TEST: [TEST / "x", TEST / "y", TEST / "z"]}
    assert clean_lists(SETS, HOLDERS, [TEST, TRAIN])[TEST] == []


def test_pictures_of_no_set_count_nowhere() -> None:
    assert share_pictures({}, find_holders(PAIRS, FILES, {})) == []
