"""When a pair is called a copy: the rule, and its threshold calibrated on pictures that are no copies of each other."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.sources.discovery import discover
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import embed_pictures
from image_copies.matching.matches import Rule
from image_copies.matching.threshold import Tail, fit_tail_of_readable
from image_copies.submissions.vectors.files import Vectors


def make_rule(
    extractor: Extractor, threshold: float | None, rate: float, most: int, unrelated: Sequence[Path] = ()
) -> Rule:
    """Make the rule by which a pair counts as a copy; without a threshold it is calibrated.

    `rate` is of expected false alarms per query that copies nothing, between 0 and 1. `unrelated` are sources of pictures to
    calibrate on, not copies of each other; () for the network's own calibration.

    Raises:
        UserError: when calibration fails and no threshold is given.
    """
    return Rule(threshold, _find_tail(extractor, unrelated, threshold is not None), rate, most)


def _find_tail(extractor: Extractor, unrelated: Sequence[Path], optional: bool) -> Tail | None:
    if unrelated:
        return calibrate_on_images(extractor, discover(unrelated).images())
    try:
        return extractor.calibrate()
    except UserError:
        if optional:
            return None  # the rates are not known; the threshold is the user's own
        raise


def calibrate_on_images(extractor: Extractor, images: ImageSet) -> Tail:
    """Fit the tail on unedited pictures that are not copies of each other: each is compared with all others.

    Raises:
        UserError: when there are too few pairs.
    """
    vectors = embed_pictures(extractor, images, "embedding unrelated pictures")
    rows = np.arange(len(vectors))
    queries = Vectors(vectors.ids, extractor.normalize(vectors.vectors), vectors.unreadable)
    return fit_tail_of_readable(queries, vectors, rows)
