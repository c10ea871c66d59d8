"""Which of the pairs that vectors found are verified by local features, and how thoroughly: those that promise something.

A reference at a distance at which several false alarms are expected is near by chance. The numbers were chosen on the development
sets `photos` and `photos-wide`, ten nearest references of each query, views included: all 843 pairs that features confirm with at
most 7 expected false alarms have at most MAX_ALARMS, as have six tenths of all 16,000; with at most 4 it is 842. Of 10
negatives 7 have at most MAX_NEGATIVE_ALARMS; the only pair that a crop alone confirms has .007.
"""

from collections.abc import Sequence

from image_copies.matching.matches import Match
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.geometry import CHANGES, Change
from image_copies.matching.verification.pairs import Candidate

# Expected false alarms per query up to which a pair is verified; a negative and a crop of the query are tried, too
MAX_ALARMS, MAX_NEGATIVE_ALARMS, MAX_CROP_ALARMS = 5.0, 1.3, 0.2
POSITIVE: tuple[Change, ...] = tuple(change for change in CHANGES if "inverted" not in change)


def choose_candidates(pairs: Sequence[Match], tail: Tail | None, references: int) -> list[Candidate | None]:
    """Return how each pair is verified; None for those that are not. Without a tail all are, thoroughly."""
    if tail is None:
        return [Candidate(match.query, match.reference, match.crop) for match in pairs]
    farthest, negative, crop = (
        tail.distance(alarms, references) for alarms in (MAX_ALARMS, MAX_NEGATIVE_ALARMS, MAX_CROP_ALARMS)
    )

    def choose(match: Match) -> Candidate | None:
        distance = 0.0 if match.expected_false_alarms == 0 else -match.score
        if distance > farthest:
            return None
        changes = CHANGES if distance <= negative else POSITIVE
        return Candidate(match.query, match.reference, match.crop if distance <= crop else None, changes)

    return [choose(match) for match in pairs]
