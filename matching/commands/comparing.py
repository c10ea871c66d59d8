"""match.py A.jpg B.jpg: whether two files are copies of each other."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.store import digest_of
from image_copies.matching.matches import Rule
from image_copies.matching.output import Output
from image_copies.matching.verification.pairs import verify_two


@dataclass(frozen=True)
class Verdict:
    """The result of comparing two pictures.

    Attributes:
        score: −‖q − r‖², the higher of the two directions; 0 for byte-identical files.
        threshold: Lowest score of a copy.
        copy: Whether they are copies.
        reason: What decided, in words.
    """

    score: float
    threshold: float
    copy: bool
    reason: str


def compare_bytes(first: Path, second: Path) -> Verdict | None:
    """Return the verdict on byte-identical files, which needs no network; None for other files.

    Raises:
        UserError: when one of them cannot be read.
    """
    one, other = digest_of(first), digest_of(second)
    if one != other:
        return None
    same = os.path.realpath(first) == os.path.realpath(second)
    return Verdict(0.0, 0.0, True, "the same file" if same else "the same bytes")


def compare(extractor: Extractor, rule: Rule, first: Path, second: Path, verified: bool = False) -> Verdict:
    """Compare two pictures, each as the query of the other; `verified`: also by local features, which override the score.

    Raises:
        UserError: when one of them cannot be decoded, or there is no threshold.
    """
    threshold = rule.threshold(1)
    if threshold is None and verified:
        threshold = 0.0  # only equal vectors, or agreeing features
    if threshold is None:
        raise UserError("this network has no calibrated threshold for copies: add --threshold SCORE or --unrelated DIR.")
    found = extractor.extract_all(ImageSet([str(first), str(second)], [first, second]))
    for path, bad in zip((first, second), found.unreadable, strict=True):
        if bad:
            raise UserError(f"{path} cannot be decoded as a picture. Give another file.")
    queries = extractor.normalize(found.vectors).astype(np.float64)
    references = found.vectors.astype(np.float64)[::-1]
    score = -float(((queries - references) ** 2).sum(axis=1).min())
    if verified and (evidence := verify_two(first, second)) is not None:
        changed = f", {evidence.change}" if evidence.change else ""
        return Verdict(score, threshold, True, f"{evidence.inliers} features agree{changed}")
    return Verdict(score, threshold, score >= threshold, "by their vectors")


def report(verdict: Verdict, first: Path, second: Path, output: Output) -> int:
    """Print the verdict and return the exit code: 0 for copies, 1 otherwise."""
    word = "copy" if verdict.copy else "no copy"
    output.record(
        "verdict",
        {
            "first": first,
            "second": second,
            "copy": verdict.copy,
            "score": verdict.score,
            "threshold": verdict.threshold,
            "reason": verdict.reason,
        },
    )
    if not output.json:
        output.say(f"{word}  score {verdict.score:.4f}  (at least {verdict.threshold:.4f} for a copy; {verdict.reason})")
    return 0 if verdict.copy else 1
