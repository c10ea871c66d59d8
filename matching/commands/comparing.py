"""match.py A.jpg B.jpg: whether two files are copies of each other."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.store import digest_of
from image_copies.matching.matches import Match, Rule, describe_judgement, judgement_values
from image_copies.matching.output import Output
from image_copies.matching.pairs import PairJudge, verify_two
from image_copies.matching.results.overlays import NOT_LAID, LaidPair, lay_pair
from image_copies.matching.verification.judgement import BARELY_CONFIRMED, Judgement, Kind

LIKELY = 3  # exit code: a person is to look at the two


@dataclass(frozen=True)
class Verdict:
    """The result of comparing two pictures.

    Attributes:
        score: −‖q − r‖², at most 0, the higher of the two directions; 0 for byte-identical files.
        threshold: The lowest score of a copy, by the vectors alone.
        judgement: The class (`kind`), why (`reason`), and how sure it is that they are copies (`certainty`, 0…100).
        files: The two files.
    """

    score: float
    threshold: float
    judgement: Judgement
    files: tuple[Path, Path]

    @property
    def copy(self) -> bool:
        """Whether they are called copies: the same file, certain ones, or likely ones, which a person should look at."""
        return self.judgement.is_copy

    @property
    def reason(self) -> str:
        """The class with its certainty, and what decided, in words."""
        return describe_judgement(self.judgement)

    def show(self) -> LaidPair | None:
        """Return one of the two laid on the other, which a notebook shows with a slider; None where nothing says how.

        Raises:
            ImageError: One of them cannot be read.
        """
        return lay_pair(*self.files)


def compare_bytes(first: Path, second: Path) -> Verdict | None:
    """Return the verdict on byte-identical files, which needs no network; None for other files.

    Raises:
        UserError: when one of them cannot be read.
    """
    one, other = digest_of(first), digest_of(second)
    if one != other:
        return None
    same = os.path.realpath(first) == os.path.realpath(second)
    judgement = Judgement("same file", "one file under both names" if same else "the same bytes", 100)
    return Verdict(0.0, 0.0, judgement, (first, second))


def compare(extractor: Extractor, rule: Rule, first: Path, second: Path, verified: bool = False) -> Verdict:
    """Compare two pictures, each as the query of the other; `verified`: also by local features and pixels, which then decide.

    Raises:
        UserError: when one of them cannot be decoded, or there is no threshold.
    """
    threshold = rule.threshold(1) or 0.0  # only equal vectors, or agreeing features
    if not threshold and not verified and rule.score is None:
        raise UserError(
            "this network has no calibrated threshold for copies: add --threshold SCORE or --unrelated DIR."
        )
    found = extractor.extract_all(ImageSet([str(first), str(second)], [first, second]))
    for path, bad in zip((first, second), found.unreadable, strict=True):
        if bad:
            decode_rgb(path)  # says why
            raise UserError(f"{path} cannot be decoded as a picture. Give another file.")
    queries = extractor.normalize(found.vectors).astype(np.float64)
    references = found.vectors.astype(np.float64)[::-1]
    score = -float(((queries - references) ** 2).sum(axis=1).min())
    files = first, second
    if not verified:
        kind: Kind = "likely" if score >= threshold else "unrelated"
        reason = f"by their vectors, whose score is {score:.4f}, and that of a copy {threshold:.4f} to 0"
        return Verdict(
            score, threshold, Judgement(kind, reason, BARELY_CONFIRMED if kind == "likely" else 0), files
        )
    alarms = None if rule.tail is None else float(rule.tail.false_alarms(np.array([-score]), 1)[0])
    match = Match(first, second, score, alarms, verify_two(first, second))
    return Verdict(score, threshold, PairJudge().judge(match, threshold), files)


def report(verdict: Verdict, first: Path, second: Path, output: Output, shown: Path | None = None) -> int:
    """Print the verdict; return the exit code: 0 for copies, 1 for none, LIKELY. `shown`: a picture to write of the two.

    Raises:
        UserError: The picture cannot be made or written.
    """
    doubted = verdict.judgement.kind == "likely"
    word = "perhaps a copy" if doubted else "copy" if verdict.copy else "no copy"
    output.record(
        "verdict",
        {
            "first": first,
            "second": second,
            "copy": verdict.copy,
            "score": verdict.score,
            "threshold": verdict.threshold,
        }
        | judgement_values(verdict.judgement),
    )
    if not output.json:
        output.say(f"{word}: {verdict.reason}")
    if shown is not None:
        laid = verdict.show()
        if laid is not None:
            laid.save(shown)
        output.say(f"one laid on the other: {shown}" if laid else f"{NOT_LAID} {shown} was not written.")
    return LIKELY if doubted else 0 if verdict.copy else 1
