"""match.py A.jpg B.jpg: whether two files are copies of each other."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet

from ..extractor import Extractor
from ..index.store import digest_of
from ..matches import Match, Rule, describe_judgement, judgement_values
from ..output import Output
from ..pairs import PairJudge, verify_two
from ..results.overlays import NOT_LAID, LaidPair, lay_pair
from ..verification.judgement import Judgement

LIKELY = 3  # exit code: a person is to look at the two


@dataclass(frozen=True)
class Verdict:
    """The result of comparing two pictures.

    Attributes:
        files: The two files.
        score: −‖q − r‖², at most 0, the higher of the two directions; 0 for byte-identical files.
        judgement: The class (`kind`), why (`reason`), and how sure it is that they are copies (`certainty`, 0…100).
    """

    files: tuple[Path, Path]
    score: float
    judgement: Judgement

    @property
    def copy(self) -> bool:
        """Whether they are called copies: the same file, certain ones, or likely ones, which a person should look at."""
        return self.judgement.is_copy

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
    if digest_of(first) != digest_of(second):
        return None
    same = os.path.realpath(first) == os.path.realpath(second)
    said = "one file under both names" if same else "the same bytes"
    return Verdict((first, second), 0.0, Judgement("same file", said, 100))


def compare(extractor: Extractor, rule: Rule, first: Path, second: Path) -> Verdict:
    """Compare two pictures, each as the query of the other, by their vectors, local features and pixels.

    Raises:
        UserError: when one of them cannot be decoded.
    """
    files = first, second
    found = extractor.extract_all(ImageSet(list(map(str, files)), list(files)))
    for path, bad in zip(files, found.unreadable, strict=True):
        if bad:
            decode_rgb(path)  # says why
            raise UserError(f"{path} cannot be decoded as a picture. Give another file.")
    queries = extractor.normalize(found.vectors)
    references = found.vectors[::-1]
    differences = queries.astype(np.float64) - references
    distance = float((differences**2).sum(axis=1).min())
    alarms = None if rule.tail is None else float(rule.tail.false_alarms(np.array([distance]), 1)[0])
    match = Match(first, second, -distance, alarms, evidence=verify_two(first, second))
    # without a threshold only equal vectors, or agreeing features
    return Verdict(files, -distance, PairJudge().judge(match, rule.threshold(1) or 0.0))


def report(verdict: Verdict, output: Output, shown: Path | None = None) -> int:
    """Print the verdict; return the exit code: 0 for copies, 1 for none, LIKELY. `shown`: a picture to write of the two.

    Raises:
        UserError: The picture cannot be made or written.
    """
    doubted = verdict.judgement.kind == "likely"
    word = "perhaps a copy" if doubted else "copy" if verdict.copy else "no copy"
    first, second = verdict.files
    known = {"first": first, "second": second, "copy": verdict.copy, "score": verdict.score}
    output.record("verdict", known | judgement_values(verdict.judgement))
    if not output.json:
        output.say(f"{word}: {describe_judgement(verdict.judgement)}")
    if shown is not None:
        laid = verdict.show()
        if laid is not None:
            laid.save(shown)
        output.say(f"one laid on the other: {shown}" if laid else f"{NOT_LAID} {shown} was not written.")
    return LIKELY if doubted else 0 if verdict.copy else 1
