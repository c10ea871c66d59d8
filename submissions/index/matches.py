"""What was matched: pairs of files, and the rule by which a pair counts as a copy."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.files import whole_file
from submissions.index.calibration import Tail

COLUMNS = ["query", "reference", "score", "expected_false_alarms"]


@dataclass(frozen=True)
class Match:
    """A query file and a reference file; score = −‖q − r‖²; false_alarms: to expect per query at this score, None unknown."""

    query: Path
    reference: Path
    score: float
    false_alarms: float | None


@dataclass(frozen=True)
class Matches:
    """Best first. threshold: the lowest score of a copy; None: nothing was decided, every query's nearest are listed."""

    pairs: list[Match]
    threshold: float | None
    queries: int
    references: int
    unreadable: list[Path]


@dataclass(frozen=True)
class Rule:
    """A copy scores at least `score`, or, with a tail, so much that `rate` false alarms per query are to be expected; at most
    `most` references per query."""

    score: float | None
    tail: Tail | None
    rate: float
    most: int

    def threshold(self, references: int) -> float | None:
        if self.score is not None or self.tail is None:
            return self.score
        return 0.0 - self.tail.threshold(self.rate, references)


def write_matches_csv(path: Path, matches: Matches) -> None:
    """`query,reference,score,expected_false_alarms`, best first."""
    rows = [(shown(m.query), shown(m.reference), m.score, m.false_alarms) for m in matches.pairs]
    with whole_file(path) as temporary:
        pd.DataFrame(rows, columns=COLUMNS).to_csv(temporary, index=False)


def shown(path: Path) -> str:
    """The path as text; bytes of a name that are no text become escapes."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def counted(matches: Matches) -> str:
    """How many there are, in words."""
    one, more = ("nearest pair", "nearest pairs") if matches.threshold is None else ("match", "matches")
    return f"{len(matches.pairs)} {one if len(matches.pairs) == 1 else more}"
