"""match.py A.jpg B.jpg: whether two files are copies of each other."""

import os
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet

from ..extractor import Extractor
from ..index.store import digest_of
from ..matches import Match, Rule, describe_judgement, judgement_values
from ..output import Output
from ..pairs import PairJudge
from ..show.overlays import NOT_LAID, LaidPair, lay_pair
from ..threshold import Floats
from ..verification.features import CHANGES
from ..verification.judgement import Judgement

LIKELY = 3  # exit code: a person is to look at the two


class Compared(Match):
    """Two pictures that were compared: their score, the higher of the two directions, and their class, `judgement`."""

    judgement: Judgement

    def show(self) -> LaidPair | None:
        """Return one of the two laid on the other, which a notebook shows with a slider; None where nothing says how.

        Raises:
            ImageError: One of them cannot be read.
        """
        return lay_pair(*self.files)


def compare_bytes(first: Path, second: Path) -> Compared | None:
    """Compare two files by their bytes, which needs no network; None for those that differ.

    Raises:
        UserError: One of them cannot be read.
    """
    if digest_of(first) != digest_of(second):
        return None
    same = os.path.realpath(first) == os.path.realpath(second)
    said = "one file under both names" if same else "the same bytes"
    return Compared(first, second, 0.0, judgement=Judgement("same file", said, 100))


def compare(extractor: Extractor, rule: Rule, first: Path, second: Path) -> Compared:
    """Compare two pictures, each as the query of the other, by their vectors, local features and pixels.

    Raises:
        UserError: One of them cannot be decoded.
    """
    vectors = extract_readable(extractor, [first, second])
    differences = extractor.normalize(vectors).astype(np.float64) - vectors[::-1]
    distance = float((differences**2).sum(axis=1).min())
    alarms = None if rule.tail is None else float(rule.tail.false_alarms(np.array([distance]), 1)[0])
    judge = PairJudge()
    (match,) = judge.verify_all([Match(first, second, -distance, alarms)], [CHANGES])
    # without a threshold only equal vectors, or agreeing features
    judgement = judge.judge(match, rule.threshold(1) or 0.0)
    return Compared(first, second, -distance, judgement=judgement)


def extract_readable(extractor: Extractor, paths: Sequence[Path]) -> Floats:
    """Return the vectors [n, d] of pictures.

    Raises:
        UserError: A picture cannot be decoded; the message names the first.
    """
    found = extractor.extract_all(ImageSet([str(row) for row in range(len(paths))], list(paths)))
    for path in compress(paths, found.unreadable):
        decode_rgb(path)  # says why
        raise UserError(f"{path} cannot be decoded as a picture. Give another file, or leave it out.")
    return found.vectors


def report(compared: Compared, output: Output, shown: Path | None = None) -> int:
    """Print what two pictures are, write a picture of them to `shown`, return the exit code: 0 for copies, 1 for none, LIKELY.

    Raises:
        UserError: The picture cannot be made or written.
    """
    judgement = compared.judgement
    doubted = judgement.kind == "likely"
    word = "perhaps a copy" if doubted else "copy" if judgement.is_copy else "no copy"
    first, second = compared.files
    known = {"first": first, "second": second, "copy": judgement.is_copy, "score": compared.score}
    output.record("verdict", known | judgement_values(judgement))
    if not output.json:
        output.say(f"{word}: {describe_judgement(judgement)}")
    if shown is not None:
        laid = compared.show()
        if laid is not None:
            laid.save(shown)
        output.say(f"one laid on the other: {shown}" if laid else f"{NOT_LAID} {shown} was not written.")
    return LIKELY if doubted else 0 if judgement.is_copy else 1
