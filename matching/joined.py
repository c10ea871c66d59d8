"""Two extractors as one, such as the descriptor that ships and anybody's network."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.extractor import Extractor
from image_copies.matching.synthetic import COPY_RATE
from image_copies.matching.threshold import MIN_QUERIES, TAIL_SHARE, Tail, choose_sample, fit_minima
from image_copies.submissions.search.neighbours import iterate_distances

UNFITTED = Tail(start=0.0, scale=1e-9, share=1.0, pairs=0)  # nothing but the same vector is a copy
MOST_QUERIES = 2000  # references that the tail is fitted on
HALF = np.float32(math.sqrt(1 / 2))  # length of each of the two vectors in the joined one


def join_extractors(first: Extractor, other: Extractor) -> Extractor:
    """Return two extractors as one, whose vectors stand side by side: squared distances are the mean of both.

    Queries are not normalised: nobody has the other's vectors of the training images. The tail is fitted to the references
    themselves, each a query for those that the first extractor finds no copies; where they are too few there is none.
    """
    width = sum(network.dimensions for network in first.networks)

    def project(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = [first.project(vectors[:, :width]), other.project(vectors[:, width:])]
        return np.concatenate(parts, axis=1) * HALF

    opens = first.source, other.source
    return Extractor(
        networks=[*first.networks, *other.networks],
        settings=first.settings,
        project=project,
        dimensions=first.dimensions + other.dimensions,
        identity=hashlib.sha256(f"{first.identity} {other.identity}".encode()).hexdigest(),
        calibrate=lambda: replace(UNFITTED, refit=partial(_fit_to, first)),
        source=opens[0] and opens[1] and partial(_join_opened, opens[0], opens[1]),
        files=(*first.files, *other.files),
    )


def _join_opened(first: Callable[[], Extractor], other: Callable[[], Extractor]) -> Extractor:
    return join_extractors(first(), other())


def _fit_to(first: Extractor, references: NDArray[np.float32]) -> Tail:
    """Return the tail of the distances from references [m, d] to the nearest other that is no copy; UNFITTED for too few."""
    own, tail = references[:, : first.dimensions] / HALF, first.calibrate()
    limit = 0.0 if tail is None else tail.against(lambda: own).threshold(COPY_RATE, len(own))
    rows, minima = choose_sample(len(references), MOST_QUERIES), [np.zeros(0)]
    away = iterate_distances(references[rows], references, "distance")
    own_away = iterate_distances(first.normalize(own[rows]), own, "distance")
    for (start, squares), (_, own_squares) in zip(away, own_away, strict=True):
        squares[own_squares <= limit] = np.inf
        squares[np.arange(len(squares)), rows[start : start + len(squares)]] = np.inf
        minima.append(squares.min(axis=1, initial=np.inf))
    found = np.concatenate(minima)
    found = found[np.isfinite(found)]
    return UNFITTED if len(found) < MIN_QUERIES else fit_minima(found, len(references), TAIL_SHARE)
