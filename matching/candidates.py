"""Which of the pairs that vectors found are verified by local features, and how thoroughly: those that promise something.

A reference at a distance at which several false alarms are expected is near by chance. The numbers were chosen on the development
sets `photos` and `photos-wide`, ten nearest references of each query, views included. Of 850 pairs that features confirm whatever
their distance, one, a negative, has more than MAX_ALARMS; no mirror image has more than MAX_MIRRORED_ALARMS (the farthest of 58
has .2), and two negatives of 15 more than MAX_THOROUGH_ALARMS (the others have at most .1).
"""

from collections.abc import Sequence

from image_copies.matching.matches import Match
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.features import CHANGES, Change

# Expected false alarms per query up to which a pair is verified; its mirror image is tried; its negative and a crop are, too
MAX_ALARMS, MAX_MIRRORED_ALARMS, MAX_THOROUGH_ALARMS = 5.0, 1.0, 0.2
UNCHANGED: tuple[Change, ...] = CHANGES[:1]
POSITIVE: tuple[Change, ...] = tuple(change for change in CHANGES if "inverted" not in change)


def choose_changes(pairs: Sequence[Match], tail: Tail | None, references: int) -> list[Sequence[Change]]:
    """Return the changes of each query that are undone when its pair is verified; none of those that are not looked at.

    Without a tail all are looked at, thoroughly.
    """
    if tail is None:
        return [CHANGES] * len(pairs)
    farthest, mirrored, thorough = (
        tail.distance(alarms, references) for alarms in (MAX_ALARMS, MAX_MIRRORED_ALARMS, MAX_THOROUGH_ALARMS)
    )

    def choose(match: Match) -> Sequence[Change]:
        distance = 0.0 if match.expected_false_alarms == 0 else -match.score
        if distance > farthest:
            return ()
        if distance <= thorough:
            return CHANGES
        return POSITIVE if distance <= mirrored else UNCHANGED

    return [choose(match) for match in pairs]
