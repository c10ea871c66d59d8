"""Which of the pairs that vectors found are verified by local features, and how thoroughly: those that promise something.

A reference at a distance at which several false alarms are expected is near by chance. The numbers were chosen on the development
sets `photos` and `photos-wide`, ten nearest references of each query, views included. Of 850 pairs that features confirm whatever
their distance, one, a negative, has more than MAX_ALARMS; no mirror image has more than MAX_MIRRORED_ALARMS (the farthest of 58
has .2), and two negatives of 15 more than MAX_THOROUGH_ALARMS (the others have at most .1).
"""

from collections.abc import Sequence

from image_copies.matching.matches import Match
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.geometry import CHANGES, Change
from image_copies.matching.verification.pairs import Candidate

# Expected false alarms per query up to which a pair is verified; its mirror image is tried; its negative and a crop are, too
MAX_ALARMS, MAX_MIRRORED_ALARMS, MAX_THOROUGH_ALARMS = 5.0, 1.0, 0.2
UNCHANGED: tuple[Change, ...] = CHANGES[:1]
POSITIVE: tuple[Change, ...] = tuple(change for change in CHANGES if "inverted" not in change)


def choose_candidates(pairs: Sequence[Match], tail: Tail | None, references: int) -> list[Candidate | None]:
    """Return how each pair is verified; None for those that are not. Without a tail all are, thoroughly."""
    if tail is None:
        return [Candidate(match.query, match.reference, match.crop) for match in pairs]
    farthest, mirrored, thorough = (
        tail.distance(alarms, references) for alarms in (MAX_ALARMS, MAX_MIRRORED_ALARMS, MAX_THOROUGH_ALARMS)
    )

    def choose(match: Match) -> Candidate | None:
        distance = 0.0 if match.expected_false_alarms == 0 else -match.score
        if distance > farthest:
            return None
        if distance <= thorough:
            return Candidate(match.query, match.reference, match.crop)
        return Candidate(match.query, match.reference, None, POSITIVE if distance <= mirrored else UNCHANGED)

    return [choose(match) for match in pairs]
