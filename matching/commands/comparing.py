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
from image_copies.matching.verification.judgement import Judgement

LIKELY = 3  # exit code: a person is to look at the two


@dataclass(frozen=True)
class Verdict:
    """The result of comparing two pictures."""

    score: float  # −‖q − r‖², the higher of the two directions; 0 for byte-identical files
    threshold: float  # lowest score of a copy
    copy: bool
    reason: str  # what decided, in words
    judgement: Judgement | None = None  # what the pixels say; None where only the vectors were compared
    files: tuple[Path, Path] | None = None

    def show(self) -> LaidPair | None:
        """Return one of the two laid on the other, which a notebook shows with a slider; None where nothing says how.

        Raises:
            ImageError: One of them cannot be read.
        """
        return None if self.files is None else lay_pair(*self.files)


def compare_bytes(first: Path, second: Path) -> Verdict | None:
    """Return the verdict on byte-identical files, which needs no network; None for other files.

    Raises:
        UserError: when one of them cannot be read.
    """
    one, other = digest_of(first), digest_of(second)
    if one != other:
        return None
    same = os.path.realpath(first) == os.path.realpath(second)
    return Verdict(0.0, 0.0, True, "the same file" if same else "the same bytes", files=(first, second))


def compare(extractor: Extractor, rule: Rule, first: Path, second: Path, verified: bool = False) -> Verdict:
    """Compare two pictures, each as the query of the other; `verified`: also by local features and pixels, which then decide.

    Raises:
        UserError: when one of them cannot be decoded, or there is no threshold.
    """
    threshold = rule.threshold(1) or 0.0  # only equal vectors, or agreeing features
    if not threshold and not verified and rule.score is None:
        raise UserError("this network has no calibrated threshold for copies: add --threshold SCORE or --unrelated DIR.")
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
        return Verdict(score, threshold, score >= threshold, "by their vectors", files=files)
    alarms = None if rule.tail is None else float(rule.tail.false_alarms(np.array([-score]), 1)[0])
    match = Match(first, second, score, alarms, verify_two(first, second))
    judgement = PairJudge().judge(match, threshold)
    return Verdict(
        score=score,
        threshold=threshold,
        copy=judgement.is_copy,
        reason=describe_judgement(judgement),
        judgement=judgement,
        files=files,
    )


def report(verdict: Verdict, first: Path, second: Path, output: Output, shown: Path | None = None) -> int:
    """Print the verdict; return the exit code: 0 for copies, 1 for none, LIKELY. `shown`: a picture to write of the two.

    Raises:
        UserError: The picture cannot be made or written.
    """
    doubted = verdict.judgement is not None and verdict.judgement.kind == "likely"
    word = "perhaps a copy" if doubted else "copy" if verdict.copy else "no copy"
    output.record(
        "verdict",
        {
            "first": first,
            "second": second,
            "copy": verdict.copy,
            "score": verdict.score,
            "threshold": verdict.threshold,
            "reason": verdict.reason,
        }
        | (judgement_values(verdict.judgement) if verdict.judgement else {}),
    )
    if not output.json:
        numbers = f" (score {verdict.score:.4f}, that of a copy is {verdict.threshold:.4f} to 0)"
        output.say(f"{word}: {verdict.reason}{'' if verdict.judgement or verdict.score == 0 else numbers}")
    if shown is not None:
        laid = verdict.show()
        if laid is not None:
            laid.save(shown)
        output.say(f"one laid on the other: {shown}" if laid else f"{NOT_LAID} {shown} was not written.")
    return LIKELY if doubted else 0 if verdict.copy else 1
