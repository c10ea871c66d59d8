"""Choosing the submitted variant on validation vectors, the synthetic queries and their references: never on real queries."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from image_copies.data.arrays import Float32s, Int64s
from image_copies.data.errors import prefix_errors
from image_copies.data.ground_truth import GroundTruth

from ..scoring.metrics import evaluate
from ..settings import EnsembleSettings, Method, NormalizationSettings
from ..vectors.concatenated import ConcatenatedVectors
from ..vectors.files import VectorRows, Vectors, join_blocks
from . import normalization as normalizing
from .projection import Projection, fit_projection_on_rows
from .variant import LEARNT_FAMILIES, LEFT_OUT_FAMILIES, MEAN, Variant, parse_variant, tabulate_variant


@dataclass(frozen=True)
class ValidationVectors:
    """PCA coordinates of the three sets; `weight` turns them into vectors of any eigenvalue power and any lower dimension."""

    name: str  # how messages refer to the training images
    queries: Vectors  # synthetic ones
    references: Vectors  # training images in which the queries are searched
    training: Float32s  # [n, d], readable training images that are not held out
    projection: Projection  # fitted on a sample of `training`

    def weight(self, dimensions: int, eigen_power: float) -> tuple[Vectors, Vectors, Float32s]:
        """Return queries, references and training as unit vectors [n, dimensions], weighted by eigenvalue ** eigen_power."""
        queries, references = (
            Vectors(
                part.ids, self.projection.weight(part.vectors[:, :dimensions], eigen_power), part.unreadable
            )
            for part in (self.queries, self.references)
        )
        return queries, references, self.projection.weight(self.training[:, :dimensions], eigen_power)


def project_validation(
    training: ConcatenatedVectors,
    references: Collection[str],
    held_out: Collection[str],
    synthetic: ConcatenatedVectors,
    dimensions: int,
    sample: int,
    seed: int,
) -> ValidationVectors:
    """Fit a PCA on at most `sample` training images that are not held out, and project all sets block by block.

    The synthetic queries are searched in the training images `references`, which are held out with all other validation images.
    Only [n, dimensions] is held in memory.

    Raises:
        UserError: when an id has no vector, there are too few training vectors, or a file is damaged.
    """
    outside = set(held_out)
    kept = np.array([image_id not in outside for image_id in training.ids], dtype=bool)
    others = np.flatnonzero(kept & ~training.unreadable)
    name = f"{training.name} without the {len(outside)} validation images"
    with prefix_errors(name):
        projection = fit_projection_on_rows(
            training, training.choose_rows(sample, seed, among=others), dimensions
        )
    searched = np.sort(training.rows_of(references))

    def coordinates(part: ConcatenatedVectors, rows: Int64s) -> Float32s:
        blocks = (projection.coordinates(block, dimensions) for block in part.blocks_of(rows))
        return join_blocks(blocks, len(rows), dimensions)

    return ValidationVectors(
        name,
        Vectors(synthetic.ids, coordinates(synthetic, np.arange(len(synthetic))), synthetic.unreadable),
        Vectors(
            [training.ids[row] for row in searched],
            coordinates(training, searched),
            training.unreadable[searched],
        ),
        coordinates(training, others),
        projection,
    )


def choose_variant(
    candidates: ValidationVectors,
    ground_truth: GroundTruth,
    ensemble: EnsembleSettings,
    normalization: NormalizationSettings,
    weights: tuple[float, ...] = (),
    left_out: GroundTruth | None = None,
) -> tuple[Variant, pd.DataFrame]:
    """Choose the variant with the highest µAP on the synthetic queries; return it and a table of all candidates, best first.

    Among equals it is the first in the order of the recipe. With `left_out`, the ground truth of the queries that were made with
    families of edits that training leaves out, `ground_truth` is that of the others, and the mean of both µAPs counts. The
    candidates have at least as many dimensions as the largest one, and were concatenated with these weights; () if all are 1.

    Raises:
        UserError: when there are too few training vectors, or the ground truth names unknown ids.
    """
    projections = list(product(ensemble.dimensions, ensemble.eigen_power))
    rows: list[dict[str, Any]] = []
    for dimensions, power in tqdm(projections, desc="choosing", unit="projection", leave=False):
        projected = Variant(dimensions, power, "none", 0.0, weights)
        rows += _score_normalizations(candidates, projected, ground_truth, left_out, normalization)
    return merge_candidates([pd.DataFrame(rows)])


def merge_candidates(tables: Sequence[pd.DataFrame]) -> tuple[Variant, pd.DataFrame]:
    """Merge tables of candidates; return the best variant and the merged table, best first."""
    table = pd.concat(tables).sort_values(MEAN, ascending=False, kind="stable").reset_index(drop=True)
    return parse_variant(table.iloc[0]), table


def _score_synthetic(
    queries: Vectors, references: Vectors, ground_truth: GroundTruth, left_out: GroundTruth | None
) -> dict[str, float]:
    """µAP of synthetic queries among the images that they are searched in, as columns of the table of candidates.

    With `left_out`, micro_average_precision is the mean of those of both halves, which stand in columns of their own.
    """

    def precision(truth: GroundTruth) -> float:
        return evaluate(queries, references, truth)[0].micro_average_precision

    learnt = precision(ground_truth)
    if left_out is None:
        return {MEAN: learnt}
    other = precision(left_out)
    return {MEAN: (learnt + other) / 2, LEARNT_FAMILIES: learnt, LEFT_OUT_FAMILIES: other}


def _score_normalizations(
    candidates: ValidationVectors,
    projected: Variant,
    ground_truth: GroundTruth,
    left_out: GroundTruth | None,
    settings: NormalizationSettings,
) -> list[dict[str, Any]]:
    """Return the table's rows of one projection; a separate function, so that its vectors are freed before the next one's."""
    queries, references, training = candidates.weight(projected.dimensions, projected.eigen_power)
    with prefix_errors(candidates.name):
        normalized = apply_normalizations(queries.vectors, training, settings)
    rows = []
    for method, beta, moved in normalized:
        scores = _score_synthetic(
            Vectors(queries.ids, moved, queries.unreadable), references, ground_truth, left_out
        )
        rows.append(tabulate_variant(replace(projected, method=method, beta=beta)) | scores)
    return rows


def find_only_candidate(
    ensemble: EnsembleSettings, normalization: NormalizationSettings, models: Sequence[str]
) -> tuple[Variant, pd.DataFrame] | None:
    """Return the only candidate and its table, without µAP; None where the recipe leaves a choice."""
    methods = normalization.methods
    betas = normalizing.list_betas(normalization, methods[0])
    only, *others = product(
        ensemble.dimensions, ensemble.eigen_power, methods, betas, ensemble.weightings(models)
    )
    if others:
        return None
    variant = Variant(*only)
    return variant, pd.DataFrame([tabulate_variant(variant)])


def apply_normalizations(
    queries: Float32s, training: VectorRows, settings: NormalizationSettings
) -> list[tuple[Method, float, Float32s]]:
    """Return method, β and normalised queries [n, d] of every candidate of the settings; the neighbours are searched once.

    Queries [n, d] and training vectors [m, d] are float32 of unit length; of those in a file only the neighbours are read into
    memory. A method that needs more than m neighbours is skipped if there are other methods.

    Raises:
        UserError: when no method can be applied because there are too few training vectors.
    """
    methods = find_usable_methods(settings, len(training))
    needed = max(normalizing.count_neighbours_needed(settings, method) for method in methods)
    held, neighbours = normalizing.hold_neighbours(
        training, normalizing.find_neighbours(queries, training, needed)
    )
    return [
        (method, beta, normalizing.normalize_queries(queries, held, neighbours, method, beta, settings))
        for method in methods
        for beta in normalizing.list_betas(settings, method)
    ]


def find_usable_methods(settings: NormalizationSettings, training: int) -> tuple[Method, ...]:
    """Return the methods that `training` vectors suffice for; all methods if none qualifies, or if there is only one.

    In the latter cases the search for neighbours then fails with a message about their number.
    """
    usable = tuple(
        method
        for method in settings.methods
        if normalizing.count_neighbours_needed(settings, method) <= training
    )
    return usable if len(settings.methods) > 1 and usable else settings.methods


def find_best_beta(table: pd.DataFrame, variant: Variant, method: Method) -> float:
    """Return the best β of `method` at the projection of `variant`; the paper's β if `method` was not a candidate.

    The table is that of `choose_variant`, best first.
    """
    wanted = tabulate_variant(replace(variant, method=method))
    same = table
    for column in ("dimensions", "eigen_power", "method", "weights"):
        same = same[same[column] == wanted[column]]
    return (
        float(same.iloc[0]["beta"])
        if len(same)
        else normalizing.list_betas(NormalizationSettings(), method)[0]
    )
