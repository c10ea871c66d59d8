"""Query normalisation: queries move away from their training neighbours, references stay (ISC2021, section 2.7)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from submissions.ensemble.projection import unit_length
from submissions.ensemble.variant import Variant
from submissions.search.backend import find_nearest
from submissions.settings import Method, NormalizationSettings

BLOCK = 4096


@dataclass(frozen=True)
class Neighbours:
    """The nearest training vectors of each query.

    Attributes:
        cosines: float32 [n, k], highest first.
        rows: int64 [n, k], rows of the training vectors.
    """

    cosines: NDArray[np.float32]
    rows: NDArray[np.int64]


def neighbours_needed(settings: NormalizationSettings, method: Method) -> int:
    """How many nearest training vectors `method` looks at: the k of Eq. 9 or 11, and for method 2 that of Eq. 12 as well."""
    match method:
        case "none":
            return 0
        case "method1":
            return settings.similarity_neighbours
        case "method2":
            return max(settings.similarity_neighbours, settings.direction_neighbours)


def find_neighbours(queries: NDArray[np.float32], training: NDArray[np.float32], count: int) -> Neighbours:
    """The `count` training vectors nearest to each query.

    Args:
        queries: float32 [n, d], unit length.
        training: float32 [m, d], unit length.
        count: k, at most m.

    Raises:
        UserError: there are fewer training vectors.
    """
    if len(training) < count:
        raise UserError(
            f"query normalisation looks at {count} training neighbours, but there are {len(training)} training vectors. "
            "Add training images or lower normalization.direction_neighbours (method 1: similarity_neighbours) in the recipe."
        )
    return Neighbours(*find_nearest(queries, training, count, "cosine"))


def normalize_queries(
    queries: NDArray[np.float32],
    training: NDArray[np.float32],
    neighbours: Neighbours,
    method: Method,
    beta: float,
    settings: NormalizationSettings,
) -> NDArray[np.float32]:
    """Queries [n, d] after method 1 (Eq. 9-10) or 2 (Eq. 11-14); "none" returns them as they are. Zero rows stay zero.

    C = mean cosine to the nearest `similarity_neighbours`, clipped at 0. Method 1: q (1 + β √C). Method 2: q + β √C · direction,
    where direction is the unit mean of (q − t) / ‖q − t‖ over the nearest `direction_neighbours`.

    Args:
        queries: [n, d] float32, unit length.
        training: [m, d] float32, unit length; the vectors in which `neighbours` were found.
        neighbours: of the queries among `training`, at least as many as the method looks at.
        method: which of the paper's methods.
        beta: the strength β of Eq. 10 or 14.
        settings: how many of the neighbours make C and the direction.

    Raises:
        ValueError: fewer neighbours were searched than the method looks at.
    """
    if method == "none":
        return queries
    needed, found = neighbours_needed(settings, method), neighbours.rows.shape[1]
    if found < needed:
        raise ValueError(f"{method} looks at {needed} neighbours, {found} were searched")
    similarity = np.maximum(neighbours.cosines[:, : settings.similarity_neighbours].mean(axis=1, keepdims=True), 0)
    strength = (beta * np.sqrt(similarity)).astype(np.float32)
    if method == "method1":
        longer: NDArray[np.float32] = queries * (1 + strength)
        return longer
    nearest, moved = neighbours.rows[:, : settings.direction_neighbours], np.empty_like(queries)
    for start in range(0, len(queries), BLOCK):
        part = slice(start, start + BLOCK)
        moved[part] = queries[part] + strength[part] * _direction(queries[part], training, nearest[part])
    moved[~queries.any(axis=1)] = 0
    return moved


def normalize_by_variant(
    queries: NDArray[np.float32], training: NDArray[np.float32], variant: Variant, settings: NormalizationSettings
) -> NDArray[np.float32]:
    """Queries [n, d] as the chosen variant searches them, normalised against training vectors [m, d]; all of unit length.

    Raises:
        UserError: there are fewer training vectors than the method looks at.
    """
    needed = neighbours_needed(settings, variant.method)
    if not needed or not len(queries):
        return queries
    neighbours = find_neighbours(queries, training, needed)
    return normalize_queries(queries, training, neighbours, variant.method, variant.beta, settings)


def _direction(queries: NDArray[np.float32], training: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The unit vectors [n, d] away from the neighbours (Eq. 12-13); a neighbour equal to the query has no direction."""
    total = np.zeros_like(queries)
    for column in rows.T:  # one neighbour at a time keeps memory at [n, d]
        away = queries - training[column]
        length = np.linalg.norm(away, axis=1, keepdims=True)
        total += np.where(length > 1e-6, away / np.maximum(length, 1e-6), 0)
    total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return total


def subtract_negatives(
    vectors: NDArray[np.float32], training: NDArray[np.float32], beta: float = 0.35, neighbours: int = 10
) -> NDArray[np.float32]:
    """Negative embedding subtraction of the descriptor track's winner, for queries and references alike, as a comparison.

    x' = x − β · (mean of its nearest training vectors), made unit length; zero rows stay zero.

    Args:
        vectors: float32 [n, d], unit length.
        training: float32 [m, d], unit length.
        beta: strength β.
        neighbours: how many training vectors the mean is taken over.

    Raises:
        UserError: there are fewer training vectors than `neighbours`.
    """
    found = find_neighbours(vectors, training, neighbours)
    mean = np.zeros_like(vectors)
    for column in found.rows.T:  # one neighbour at a time keeps memory at [n, d]
        mean += training[column] / np.float32(neighbours)
    moved = vectors - np.float32(beta) * mean
    moved[~vectors.any(axis=1)] = 0
    return unit_length(moved)


def normalize_scores(
    queries: NDArray[np.float32], training: NDArray[np.float32], alpha: float = 1.0, neighbours: int = 3
) -> NDArray[np.float32]:
    """Plain score normalisation (Eq. 1 and 7) as one more coordinate, as a comparison.

    Subtracting α × the mean cosine to the nearest training vectors from a query's scores adds a constant to its squared
    distances: the square of a coordinate that is 0 in all references (`append_zero`).

    Args:
        queries: float32 [n, d], unit length.
        training: float32 [m, d], unit length.
        alpha: strength α.
        neighbours: how many training vectors the mean is taken over.

    Returns:
        float32 [n, d + 1].

    Raises:
        UserError: there are fewer training vectors than `neighbours`.
    """
    found = find_neighbours(queries, training, neighbours)
    similarity = np.maximum(found.cosines.mean(axis=1, keepdims=True), 0)
    return np.concatenate([queries, np.sqrt(2 * alpha * similarity)], axis=1).astype(np.float32)


def append_zero(references: NDArray[np.float32]) -> NDArray[np.float32]:
    """The references [n, d] as `normalize_scores` needs them: [n, d + 1], the last coordinate 0."""
    return np.concatenate([references, np.zeros((len(references), 1), np.float32)], axis=1)
