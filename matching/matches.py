"""Matches: pairs of files, and the rule by which a pair counts as a copy."""

import csv
import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import get_args

import pandas as pd

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.names import text_of
from image_copies.data.remote import as_path
from image_copies.matching.threshold import Tail
from image_copies.matching.verification.geometry import Box, Change, Evidence

COLUMNS = ["query", "reference", "score", "expected_false_alarms"]
EVIDENCE_COLUMNS = ["inliers", "change", "query_region", "reference_region"]
ESCAPED_BYTE = re.compile(rb"\\x([0-9a-f]{2})")  # a byte of a name that is not UTF-8


@dataclass(frozen=True)
class Match:
    """A pair of files.

    Attributes:
        query: The file that was searched for.
        reference: The file that was found.
        score: −‖q − r‖².
        false_alarms: Expected false alarms per query at this score; None where they are not calibrated.
        evidence: What the two pictures share; None if they were not verified or too few features agree.
    """

    query: Path
    reference: Path
    score: float
    false_alarms: float | None
    evidence: Evidence | None = None


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
        exact: Whether every query was compared with every reference; scores are exact in either case.
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
        score: Lowest score of a copy; None to calibrate it by the tail.
        tail: Tail of unrelated pairs' distances; None where it is not known.
        rate: Expected false alarms per query that copies nothing, between 0 and 1.
        most: Maximum number of references per query.
    """

    score: float | None
    tail: Tail | None
    rate: float
    most: int

    def threshold(self, references: int) -> float | None:
        """Return the lowest score of a copy among this number of references; None without a score and a tail."""
        if self.score is not None or self.tail is None:
            return self.score
        return 0.0 - self.tail.threshold(self.rate, references)


def write_matches_csv(path: Path, matches: Matches) -> None:
    """Write the matches as CSV, best first: query, reference, score and expected false alarms; if verified, the evidence too.

    Regions are written as `left top right bottom`, shares 0…1 of the picture's width and height.

    Args:
        path: The file to write.
        matches: What was found.

    Raises:
        UserError: The disk is full.
    """
    columns = COLUMNS + (EVIDENCE_COLUMNS if matches.verified else [])
    rows = [
        [text_of(m.query), text_of(m.reference), m.score, m.false_alarms, *(_format_evidence(m) if matches.verified else [])]
        for m in matches.pairs
    ]
    with whole_file(path) as temporary:
        pd.DataFrame(rows, columns=columns).to_csv(temporary, index=False)


def read_matches_csv(path: Path, most: int | None = None) -> list[Match]:
    """Read a file that `write_matches_csv` wrote.

    Args:
        path: The file.
        most: Maximum number of pairs to read, the best ones; None for all.

    Returns:
        The pairs, best first.

    Raises:
        UserError: The file does not exist, or its format is not the one that match.py writes.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_parse_match(line) for line in islice(csv.DictReader(file), most)]
    except FileNotFoundError as error:
        raise UserError(f"{path}: there are no matches. Search first: match.py --queries DIR writes them.") from error
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} is not as match.py writes it ({error!r}). Search again to replace it.") from error


def _parse_match(line: dict[str, str]) -> Match:
    """Parse one row of the CSV; raises KeyError, ValueError or TypeError where it is malformed."""
    inliers = int(line.get("inliers") or 0)
    alarms = float(line["expected_false_alarms"]) if line["expected_false_alarms"] else None
    evidence = None
    if inliers:
        query, reference = (_parse_region(line[name]) for name in ("query_region", "reference_region"))
        evidence = Evidence(inliers, get_args(Change)[get_args(Change).index(line["change"])], query, reference)
    return Match(_parse_path(line["query"]), _parse_path(line["reference"]), float(line["score"]), alarms, evidence)


def _parse_region(text: str) -> Box:
    left, top, right, bottom = map(float, text.split())
    return left, top, right, bottom


def _parse_path(text: str) -> Path:
    """Return the path that `text_of` wrote; escapes stand for their bytes, unless a file has the text as its literal name."""
    path = as_path(text)
    if "\\x" in text and not path.exists():
        return as_path(os.fsdecode(ESCAPED_BYTE.sub(lambda escape: bytes([int(escape[1], 16)]), text.encode())))
    return path


def _format_evidence(match: Match) -> list[object]:
    """Return the cells for EVIDENCE_COLUMNS; 0 inliers and empty cells where there is no evidence."""
    found = match.evidence
    if found is None:
        return [0, "", "", ""]
    regions = [" ".join(f"{side:.3f}" for side in region) for region in (found.query_region, found.reference_region)]
    return [found.inliers, found.change, *regions]


def describe_count(matches: Matches) -> str:
    """Return the number of pairs with its noun, such as "3 matches" or "1 nearest pair"."""
    one, more = ("match", "matches") if matches.decided else ("nearest pair", "nearest pairs")
    return f"{len(matches.pairs)} {one if len(matches.pairs) == 1 else more}"
