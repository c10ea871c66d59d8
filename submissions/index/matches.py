"""What was matched: pairs of files, and the rule by which a pair counts as a copy."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.files import whole_file
from data.names import text_of
from submissions.index.calibration import Tail
from submissions.verification.geometry import Evidence

COLUMNS = ["query", "reference", "score", "expected_false_alarms"]
EVIDENCE_COLUMNS = ["inliers", "change", "query_region", "reference_region"]


@dataclass(frozen=True)
class Match:
    """A pair of files.

    Attributes:
        query: the file that was searched for.
        reference: the file that was found.
        score: −‖q − r‖².
        false_alarms: to expect per query at this score; None where nothing is known of them.
        evidence: what the two share, where it was looked for and found.
    """

    query: Path
    reference: Path
    score: float
    false_alarms: float | None
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Matches:
    """What a search found.

    Attributes:
        pairs: best first.
        threshold: the lowest score of a copy; None: none was calibrated.
        queries: how many there were.
        references: different contents that were searched.
        unreadable: files that match nothing.
        verified: whether pairs were looked at again; without a threshold only confirmed ones are listed then.
        exact: whether every query was compared with every reference; scores are exact in either case.
    """

    pairs: list[Match]
    threshold: float | None
    queries: int
    references: int
    unreadable: list[Path]
    verified: bool = False
    exact: bool = True

    @property
    def decided(self) -> bool:
        """Whether the pairs are copies; otherwise they are every query's nearest references."""
        return self.threshold is not None or self.verified


@dataclass(frozen=True)
class Rule:
    """When a pair counts as a copy.

    Attributes:
        score: the lowest score of a copy; None to follow the tail.
        tail: of unrelated pairs' distances; None where there is none.
        rate: false alarms to expect per query that copies nothing.
        most: references per query at most.
    """

    score: float | None
    tail: Tail | None
    rate: float
    most: int

    def threshold(self, references: int) -> float | None:
        """Return the lowest score of a copy among so many references; None where nothing decides it."""
        if self.score is not None or self.tail is None:
            return self.score
        return 0.0 - self.tail.threshold(self.rate, references)


def write_matches_csv(path: Path, matches: Matches) -> None:
    """Write `query,reference,score,expected_false_alarms`, best first; of verified matches the evidence too.

    Regions are `left top right bottom` as shares of the picture.
    """
    columns = COLUMNS + (EVIDENCE_COLUMNS if matches.verified else [])
    rows = [
        [text_of(m.query), text_of(m.reference), m.score, m.false_alarms, *(_evidence(m) if matches.verified else [])]
        for m in matches.pairs
    ]
    with whole_file(path) as temporary:
        pd.DataFrame(rows, columns=columns).to_csv(temporary, index=False)


def _evidence(match: Match) -> list[object]:
    found = match.evidence
    if found is None:
        return [0, "", "", ""]
    regions = [" ".join(f"{side:.3f}" for side in region) for region in (found.query_region, found.reference_region)]
    return [found.inliers, found.change, *regions]


def counted(matches: Matches) -> str:
    """Return how many there are, in words."""
    one, more = ("match", "matches") if matches.decided else ("nearest pair", "nearest pairs")
    return f"{len(matches.pairs)} {one if len(matches.pairs) == 1 else more}"
