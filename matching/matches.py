"""Matches: pairs of files, the rule by which a pair counts as a copy, and what a person excludes."""

import csv
import os
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from image_copies.data import commands, ground_truth, remote
from image_copies.data.errors import UserError, text_of

from .threshold import Doubles, Floats, Tail
from .verification.features import CHANGES, Box, Change
from .verification.geometry import Evidence
from .verification.judgement import Judgement, Kind

# scores pairs of pictures, given by the SHA-256 of their bytes: −‖q − r‖², float64 [pairs]
PairScorer = Callable[[Sequence[tuple[bytes, bytes]]], Doubles]
ESCAPED_BYTE = re.compile(rb"\\x([0-9a-f]{2})")  # a byte of a name that is not UTF-8


def _parse_path(text: str) -> Path:
    """Return the path that `text_of` wrote; escapes stand for their bytes, unless a file has the text as its literal name."""
    path = remote.as_path(text)
    if "\\x" in text and not path.exists():
        return remote.as_path(
            os.fsdecode(ESCAPED_BYTE.sub(lambda escape: bytes([int(escape[1], 16)]), text.encode()))
        )
    return path


def _parse_region(text: str) -> Box:
    left, top, right, bottom = map(float, text.split())
    return left, top, right, bottom


Cells = dict[str, Callable[[str], Any]]
# The columns of matches.csv, also values of JSON lines and pages: the fields of Match, Evidence and Judgement (its kind is the
# class), and how their cells are read.
# A new one is a field and a row here; WORDS may give it words other than its name.
MATCH_CELLS: Cells = {
    "query": _parse_path,
    "reference": _parse_path,
    "score": float,
    "expected_false_alarms": lambda text: float(text) if text else None,
}
EVIDENCE_CELLS: Cells = {
    "inliers": int,
    "change": TypeAdapter(Change).validate_python,
    "query_region": _parse_region,
    "reference_region": _parse_region,
}
JUDGEMENT_CELLS: Cells = {
    "class": TypeAdapter(Kind).validate_python,
    "reason": str,
    "certainty": int,
}
SERIES_CELLS: Cells = {"series": int, "sharpest": _parse_path}
WORDS = {
    "score": "score {:.3f}",
    "expected_false_alarms": "false alarms {:.1g}",
    "inliers": "{} features agree",
    "change": "{}",
}
# shown as pictures and frames
PICTURED = {"query", "reference", "query_region", "reference_region", "sharpest"}


@dataclass(frozen=True)
class Match:
    """A pair of files.

    Attributes:
        query: The file that was searched for.
        reference: The file that was found.
        score: −‖q − r‖²; −∞ where it is not known.
        expected_false_alarms: Expected false alarms per query at this score; None where they are not calibrated.
        evidence: What the two pictures share; None if they were not verified or too few features agree.
        judgement: What the pair is, by its pixels; None where nobody looked.
        crop: Number of the crop of the query that the score belongs to (`views.list_crops`); None for the whole.
        series: Number of the series that the two are shots of (`groups/series.py`); None for none.
        sharpest: The picture of the series that is suggested.
        same_bytes: Whether the search has found the same bytes in both.
    """

    query: Path
    reference: Path
    score: float = -np.inf
    expected_false_alarms: float | None = None
    _: KW_ONLY
    evidence: Evidence | None = None
    judgement: Judgement | None = None
    crop: int | None = None
    series: int | None = None
    sharpest: Path | None = None
    same_bytes: bool = False

    @property
    def files(self) -> tuple[Path, Path]:
        """Both files."""
        return self.query, self.reference

    @property
    def settled(self) -> bool:
        """Whether there is nothing to ask: the bytes are the same, or the user called the two copies."""
        return 0 in (self.score, self.expected_false_alarms)

    @property
    def is_copy(self) -> bool:
        """Whether one is called a copy of the other."""
        return self.settled or self.judgement is None or self.judgement.is_copy


@dataclass(frozen=True)
class Matches:
    """The result of a search.

    Attributes:
        pairs: The pairs, best first.
        threshold: Lowest score of a copy; None where it is not calibrated.
        queries: Number of queries.
        references: Number of different contents searched.
        unreadable: Files that cannot be decoded and match nothing.
        verified: Whether pairs were verified by local features; without a threshold only confirmed ones are listed then.
        digests: SHA-256 of every picture involved, by its path.
    """

    pairs: list[Match]
    threshold: float | None
    queries: int
    references: int
    unreadable: list[Path]
    verified: bool = False
    digests: Mapping[Path, bytes] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether the pairs are copies; otherwise they are every query's nearest references."""
        return self.threshold is not None or self.verified


# Expected false alarms per query up to which a pair is verified; its mirror image is tried; its negative and a crop are, too.
# At a distance at which several are expected, a reference is near by chance. Chosen on the development sets `photos` and
# `photos-wide`, ten nearest references of each query, views included: of 850 pairs that features confirm whatever their distance,
# one, a negative, has more than the first; no mirror image has more than the second (the farthest of 58 has .2), and two
# negatives of 15 more than the third (the others have at most .1).
MAX_ALARMS = 5.0
MAX_MIRRORED_ALARMS = 1.0
MAX_THOROUGH_ALARMS = 0.2
FALSE_ALARMS = 0.001  # expected per query, where nobody said
MOST_REFERENCES = 10  # of a query, that are listed and verified
UNCHANGED: tuple[Change, ...] = CHANGES[:1]
POSITIVE: tuple[Change, ...] = tuple(change for change in CHANGES if "inverted" not in change)
CHANGES_WITHIN = CHANGES, POSITIVE, UNCHANGED, ()


@dataclass(frozen=True)
class Rule:
    """When a pair counts as a copy.

    Attributes:
        score: Lowest score of a copy; None to calibrate it by the tail.
        tail: Tail of unrelated pairs' distances; None where it is not known.
        rate: Expected false alarms per query that copies nothing, between 0 and 1.
        most: Maximum number of references per query.
    """

    score: float | None
    tail: Tail | None
    rate: float = FALSE_ALARMS
    most: int = MOST_REFERENCES

    def against(self, sample: Callable[[], Floats]) -> "Rule":
        """Return the rule with its tail fitted to a sample of the references [m, d]; without a tail where they are too few."""
        if self.tail is None:
            return self
        fitted = self.tail.against(sample)
        return replace(self, tail=fitted if fitted.pairs else None)

    def threshold(self, references: int) -> float | None:
        """Return the lowest score of a copy among this number of references; None without a score and a tail."""
        if self.score is not None or self.tail is None:
            return self.score
        return 0.0 - self.tail.threshold(self.rate, references)

    def choose_changes(self, pairs: Sequence[Match], references: int) -> list[Sequence[Change]]:
        """Return the changes of each query that are undone when its pair is verified, by how much the pair promises.

        A pair without any is not looked at. Without a tail all are, thoroughly.
        """
        if self.tail is None:
            return [CHANGES] * len(pairs)
        limits = [
            self.tail.distance(alarms, references)
            for alarms in (MAX_THOROUGH_ALARMS, MAX_MIRRORED_ALARMS, MAX_ALARMS)
        ]
        distances = [0.0 if match.expected_false_alarms == 0 else -match.score for match in pairs]
        return [CHANGES_WITHIN[bisect_left(limits, distance)] for distance in distances]

    def select_verified(self, pairs: Iterable[Match], threshold: float | None) -> list[Match]:
        """Return the pairs that are confirmed or score enough, at most `most` for a query, as `rank_by_evidence` orders them.

        Without a threshold only evidence decides. The same bytes, and what the user called a copy, need neither.
        """
        kept: list[Match] = []
        count: dict[Path, int] = defaultdict(int)
        for match in rank_by_evidence(pairs):
            enough = threshold is not None and match.score >= threshold
            if match.settled or ((enough or match.evidence is not None) and count[match.query] < self.most):
                kept.append(match)
                count[match.query] += 1
        return kept


def rank_by_evidence(pairs: Iterable[Match]) -> list[Match]:
    """Return pairs, confirmed ones first, by how many features agree, then by their scores."""

    def rank(match: Match) -> tuple[int, float, Path, Path]:
        return -(match.evidence.inliers if match.evidence else 0), -match.score, *match.files

    return sorted(pairs, key=rank)


def match_values(match: Match) -> dict[str, Any]:
    """Return what is known of a match by name, as matches.csv, JSON lines and the pages have it."""
    return (
        {name: getattr(match, name) for name in MATCH_CELLS}
        | ({name: getattr(match.evidence, name) for name in EVIDENCE_CELLS} if match.evidence else {})
        | (judgement_values(match.judgement) if match.judgement else {})
        | ({name: getattr(match, name) for name in SERIES_CELLS} if match.series else {})
    )


def judgement_values(judgement: Judgement) -> dict[str, Any]:
    """Return what a pair is by name, as `match_values` does."""
    return {"class": judgement.kind, "reason": judgement.reason, "certainty": judgement.certainty}


def describe_judgement(judgement: Judgement) -> str:
    """Return what a pair is in words, such as "certain (98 of 100): the pixels agree"."""
    return f"{judgement.kind} ({judgement.certainty} of 100): {judgement.reason}"


def describe_match(match: Match) -> str:
    """Return what is known of a match in words, but for its files and for the regions, which pages show as pictures.

    Of a pair that was judged its class is given, not its score: that means nothing to most people, and is in matches.csv.
    """
    hidden = PICTURED | ({*JUDGEMENT_CELLS, "score", "expected_false_alarms"} if match.judgement else set())
    values = {
        name: value
        for name, value in match_values(match).items()
        if name not in hidden and value not in (None, "")
    }
    known = [
        WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(value) for name, value in values.items()
    ]
    return "; ".join(
        ([describe_judgement(match.judgement)] if match.judgement else [])
        + [", ".join(known)] * bool(known)
    )


def write_matches_csv(path: Path, matches: Matches) -> None:
    """Write the matches as CSV, best first: query, reference, score, expected false alarms, what features say, class and series.

    Regions are written as `left top right bottom`, shares 0…1 of the picture's width and height. A pair without evidence has 0
    inliers.

    Raises:
        UserError: The disk is full.
    """
    columns = [*MATCH_CELLS, *(EVIDENCE_CELLS if matches.verified else ()), *JUDGEMENT_CELLS, *SERIES_CELLS]
    found = [{"inliers": 0} | match_values(match) for match in matches.pairs]
    rows = [[_format_cell(values.get(name, "")) for name in columns] for values in found]
    ground_truth.write_table(path, columns, rows)


def read_matches_csv(path: Path, most: int | None = None) -> list[Match]:
    """Read the best pairs, or all, of a file that `write_matches_csv` wrote.

    Raises:
        UserError: The file does not exist, or its format is not the one that match.py writes.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_parse_match(line) for line in islice(csv.DictReader(file), most)]
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there are no matches. Search first: {commands.name_command('match')} DIR writes them."
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not as a search writes it ({error!r}). Search again to replace it."
        ) from error


def _format_cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(f"{side:.3f}" for side in value)
    return text_of(value) if isinstance(value, Path) else value


def _parse_match(line: dict[str, str]) -> Match:
    """Parse one row of the CSV; raises KeyError, ValueError or TypeError where it is malformed."""
    evidence = None
    if int(line.get("inliers") or 0):
        evidence = Evidence(**{name: parse(line[name]) for name, parse in EVIDENCE_CELLS.items()})
    judgement = None
    if line.get("class"):
        kind, reason, certainty = (parse(line[name]) for name, parse in JUDGEMENT_CELLS.items())
        judgement = Judgement(kind, reason, certainty)
    cells = MATCH_CELLS | (SERIES_CELLS if line.get("series") else {})
    return Match(
        **{name: parse(line[name]) for name, parse in cells.items()}, evidence=evidence, judgement=judgement
    )


def describe_count(matches: Matches) -> str:
    """Return the number of pairs with its noun, such as "3 matches" or "1 nearest pair"."""
    one, more = ("match", "matches") if matches.decided else ("nearest pair", "nearest pairs")
    return f"{len(matches.pairs)} {one if len(matches.pairs) == 1 else more}"
