"""Query normalisation: queries move away from their training neighbours, references stay (ISC2021, section 2.7)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from image_copies.data.arrays import Float32s, Int64s
from image_copies.data.errors import UserError

from ..search.neighbours import Neighbours
from ..settings import Method, NormalizationSettings
from ..vectors.files import VectorRows, take_rows
from .variant import Variant

QUERIES_PER_BLOCK = 4096


@dataclass(frozen=True)
class TrainingNear:
    """The nearest training vectors of each query."""

    cosines: Float32s  # [n, k], highest first
    rows: Int64s  # of the training vectors [n, k], in the same order


def _move_away(
    queries: Float32s,
    training: Float32s,
    neighbours: TrainingNear,
    beta: float,
    settings: NormalizationSettings,
) -> Float32s:
    """q + β √C · direction (Eq. 14): the direction is the mean of (q − t) / ‖q − t‖ over the nearest, scaled to unit length."""
    strength, nearest = (
        _strength(neighbours, beta, settings),
        neighbours.rows[:, : settings.direction_neighbours],
    )
    moved = np.empty_like(queries)
    for start in range(0, len(queries), QUERIES_PER_BLOCK):
        part = slice(start, start + QUERIES_PER_BLOCK)
        moved[part] = queries[part] + strength[part] * _compute_direction(
            queries[part], training, nearest[part]
        )
    moved[~queries.any(axis=1)] = 0
    return moved


def _strength(neighbours: TrainingNear, beta: float, settings: NormalizationSettings) -> Float32s:
    """β √C [n, 1], where C is the mean cosine to the nearest `similarity_neighbours`, clipped at 0 (Eq. 9 and 11)."""
    similarity = np.maximum(
        neighbours.cosines[:, : settings.similarity_neighbours].mean(axis=1, keepdims=True), 0
    )
    strength: Float32s = (beta * np.sqrt(similarity)).astype(np.float32)
    return strength


def _compute_direction(queries: Float32s, training: Float32s, rows: Int64s) -> Float32s:
    """Return unit vectors [n, d] pointing away from the neighbours (Eq. 12-13); a neighbour equal to the query contributes 0."""
    total = np.zeros_like(queries)
    for column in rows.T:  # one neighbour at a time keeps memory at [n, d]
        away = queries - training[column]
        length = np.linalg.norm(away, axis=1, keepdims=True)
        total += np.where(length > 1e-6, away / np.maximum(length, 1e-6), 0)
    total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return total


@dataclass(frozen=True)
class Normalization:
    """A row of METHODS.

    The formula takes queries [n, d], training vectors [m, d], the neighbours found among these, β and the settings.
    """

    label: str  # in tables and pages
    beta: str | None  # key of NormalizationSettings that lists its candidates
    neighbours: tuple[str, ...]  # keys that say how many it needs
    formula: Callable[
        [Float32s, Float32s, TrainingNear, float, NormalizationSettings],
        Float32s,
    ]


METHODS: dict[Method, Normalization] = {
    "none": Normalization("not normalised", None, (), lambda queries, *_: queries),
    "method1": Normalization(
        "method 1",
        "beta1",
        ("similarity_neighbours",),
        # Eq. 10
        lambda queries, _, neighbours, beta, settings: (
            queries * (1 + _strength(neighbours, beta, settings))
        ),
    ),
    "method2": Normalization(
        "method 2", "beta2", ("similarity_neighbours", "direction_neighbours"), _move_away
    ),
}


def count_neighbours_needed(settings: NormalizationSettings, method: Method) -> int:
    """Return how many nearest training vectors `method` uses: k of Eq. 9 or 11, for method 2 the larger of Eq. 11's and 12's."""
    return max((getattr(settings, key) for key in METHODS[method].neighbours), default=0)


def list_betas(settings: NormalizationSettings, method: Method) -> tuple[float, ...]:
    """Return the candidate β of `method`; (0.0,) if it has none."""
    key = METHODS[method].beta
    return getattr(settings, key) if key else (0.0,)


def with_betas(settings: NormalizationSettings, betas: Mapping[Method, float]) -> NormalizationSettings:
    """Return a copy whose only candidates are the methods of `betas`, each with its one β."""
    chosen = {key: (beta,) for method, beta in betas.items() if (key := METHODS[method].beta)}
    return settings.model_copy(update={"methods": tuple(betas)} | chosen)


def find_neighbours(queries: Float32s, training: VectorRows, count: int) -> TrainingNear:
    """Find the `count` training vectors [m, d] nearest to each query [n, d], all float32 of unit length.

    Raises:
        UserError: when there are fewer than `count` training vectors.
    """
    if len(training) < count:
        raise UserError(
            f"query normalisation needs {count} training neighbours, but there are only {len(training)} training vectors. "
            "Give more, or in a run's recipe lower normalization.direction_neighbours (method 1: similarity_neighbours)."
        )
    if not count:
        return TrainingNear(np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64))
    found = Neighbours(training).nearest(queries, count, "cosine")
    return TrainingNear(found.values.astype(np.float32), found.rows)


def hold_neighbours(training: VectorRows, neighbours: TrainingNear) -> tuple[Float32s, TrainingNear]:
    """Return training vectors [n, d] in memory, of those in files only the neighbours, and which of them the neighbours are."""
    if isinstance(training, np.ndarray):
        return training, neighbours
    used, places = np.unique(neighbours.rows, return_inverse=True)
    return take_rows(training, used), replace(neighbours, rows=places.reshape(neighbours.rows.shape))


def normalize_queries(
    queries: Float32s,
    training: Float32s,
    neighbours: TrainingNear,
    method: Method,
    beta: float,
    settings: NormalizationSettings,
) -> Float32s:
    """Normalise queries, float32 [n, d] of unit length, by the formula of a row of METHODS; the result need not have unit length.

    `neighbours` were found in `training`, float32 [m, d] of unit length; the settings say from how many of them C and the
    direction are computed. Zero rows stay zero; "none" returns `queries` itself.

    Raises:
        ValueError: when `neighbours` holds fewer than `count_neighbours_needed`.
    """
    needed = count_neighbours_needed(settings, method)
    found = neighbours.rows.shape[1]
    if found < needed:
        raise ValueError(f"{method} needs {needed} neighbours, but {found} were found")
    return METHODS[method].formula(queries, training, neighbours, beta, settings)


def normalize_by_variant(
    queries: Float32s, training: VectorRows, variant: Variant, settings: NormalizationSettings
) -> Float32s:
    """Normalise queries [n, d] by the method and β of the chosen variant; training vectors are [m, d], all of unit length.

    Of training vectors in a file, only the neighbours are read into memory. Without a method, `queries` itself is returned.

    Raises:
        UserError: when there are fewer training vectors than the method needs.
    """
    needed = count_neighbours_needed(settings, variant.method)
    if not needed or not len(queries):
        return queries
    held, neighbours = hold_neighbours(training, find_neighbours(queries, training, needed))
    return normalize_queries(
        queries=queries,
        training=held,
        neighbours=neighbours,
        method=variant.method,
        beta=variant.beta,
        settings=settings,
    )
