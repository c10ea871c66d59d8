"""Pairs are verified as thoroughly as their distances promise."""

from pathlib import Path

from image_copies.matching.candidates import (
    MAX_ALARMS,
    MAX_MIRRORED_ALARMS,
    MAX_THOROUGH_ALARMS,
    POSITIVE,
    UNCHANGED,
    choose_changes,
)
from image_copies.matching.matches import Match
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.features import CHANGES

TAIL = Tail(start=1.0, scale=0.1, share=0.01, pairs=10_000)
REFERENCES = 25


def test_far_pairs_are_not_verified_and_near_ones_thoroughly() -> None:
    """Of 25 references half a false alarm is expected at the tail's start: the limits lie on both sides of it."""
    one, other = Path("one"), Path("other")
    distances = [TAIL.distance(alarms, REFERENCES) - 1e-6 for alarms in (MAX_THOROUGH_ALARMS, MAX_MIRRORED_ALARMS, MAX_ALARMS)]
    assert distances[0] < TAIL.start < distances[1] < distances[2]
    pairs = [Match(one, other, -distance, 0.5) for distance in [*distances, distances[2] + 1e-3]]
    assert choose_changes(pairs, TAIL, REFERENCES) == [CHANGES, POSITIVE, UNCHANGED, ()]
    assert choose_changes(pairs[3:], None, REFERENCES) == [CHANGES]
    accepted = Match(one, other, -1.9, 0.0)
    assert choose_changes([accepted], TAIL, REFERENCES) == [CHANGES], "what a person called a copy is looked at"
