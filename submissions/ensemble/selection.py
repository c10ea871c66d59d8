"""Choosing the submitted variant on the synthetic query set: never on real queries or references."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import prefix_errors
from data.ground_truth import GroundTruth
from submissions.ensemble.normalization import find_neighbours, neighbours_needed, normalize_queries
from submissions.ensemble.validation import ValidationVectors
from submissions.ensemble.variant import Variant, row_of_variant, variant_of_row
from submissions.scoring.metrics import evaluate
from submissions.settings import PAPER_BETA, EnsembleSettings, Method, NormalizationSettings
from submissions.vectors.files import Vectors


def choose_variant(
    candidates: ValidationVectors,
    ground_truth: GroundTruth,
    ensemble: EnsembleSettings,
    normalization: NormalizationSettings,
    weights: tuple[float, ...] = (),
) -> tuple[Variant, pd.DataFrame]:
    """Choose the variant with the highest µAP on the synthetic queries; among equals the first in the order of the recipe.

    Args:
        candidates: the validation vectors, at the largest dimension of the recipe or more.
        ground_truth: of the synthetic queries.
        ensemble: candidates of dimensions and eigenvalue power.
        normalization: candidates of methods and β.
        weights: of the models, with which the candidates' vectors were concatenated; none for equal ones.

    Returns:
        The variant, and the table of all candidates with their µAP, best first.

    Raises:
        UserError: there are too few training vectors.
    """
    projections = list(product(ensemble.dimensions, ensemble.eigen_power))
    rows: list[dict[str, Any]] = []
    for dimensions, power in tqdm(projections, desc="choosing", unit="projection", leave=False):
        rows += _normalizations(candidates, Variant(dimensions, power, "none", 0.0, weights), ground_truth, normalization)
    return best_of([pd.DataFrame(rows)])


def best_of(tables: Sequence[pd.DataFrame]) -> tuple[Variant, pd.DataFrame]:
    """The best variant of several tables of candidates, and one table of all, best first."""
    table = pd.concat(tables).sort_values("micro_average_precision", ascending=False, kind="stable").reset_index(drop=True)
    return variant_of_row(table.iloc[0]), table


def _normalizations(
    candidates: ValidationVectors, projected: Variant, ground_truth: GroundTruth, settings: NormalizationSettings
) -> list[dict[str, Any]]:
    """The table's rows of one projection, whose vectors are freed before those of the next are made."""
    queries, references, training = candidates.weight(projected.dimensions, projected.eigen_power)
    with prefix_errors(candidates.name):
        normalized = apply_normalizations(queries.vectors, training, settings)
    rows = []
    for method, beta, moved in normalized:
        scores, _ = evaluate(Vectors(queries.ids, moved, queries.unreadable), references, ground_truth)
        row = row_of_variant(replace(projected, method=method, beta=beta))
        rows.append(row | {"micro_average_precision": scores.micro_average_precision})
    return rows


def only_candidate(
    ensemble: EnsembleSettings, normalization: NormalizationSettings, models: Sequence[str]
) -> tuple[Variant, pd.DataFrame] | None:
    """The variant and its table (µAP: NaN) when the recipe leaves nothing to choose, else None."""
    weightings = ensemble.weightings(models)
    if max(len(ensemble.dimensions), len(ensemble.eigen_power), len(normalization.methods), len(weightings)) > 1:
        return None
    method = normalization.methods[0]
    betas = normalization.betas(method)
    if len(betas) > 1:
        return None
    variant = Variant(ensemble.dimensions[0], ensemble.eigen_power[0], method, betas[0], weightings[0])
    return variant, pd.DataFrame([row_of_variant(variant) | {"micro_average_precision": float("nan")}])


def apply_normalizations(
    queries: NDArray[np.float32], training: NDArray[np.float32], settings: NormalizationSettings
) -> list[tuple[Method, float, NDArray[np.float32]]]:
    """Apply every (method, β) of the settings to queries [n, d]; the neighbours are searched once.

    Returns:
        Method, β and queries [n, d] for each; methods whose neighbours the training vectors [m, d] cannot give are left out.

    Raises:
        UserError: only one method is asked for and there are too few training vectors.
    """
    methods = usable_methods(settings, len(training))
    needed = max(neighbours_needed(settings, method) for method in methods)
    neighbours = find_neighbours(queries, training, needed) if needed else None
    candidates = []
    for method in methods:
        for beta in settings.betas(method):
            moved = queries if neighbours is None else normalize_queries(queries, training, neighbours, method, beta, settings)
            candidates.append((method, beta, moved))
    return candidates


def usable_methods(settings: NormalizationSettings, training: int) -> tuple[Method, ...]:
    """The methods whose neighbours `training` vectors can give; all if only one is asked for, so that it fails clearly."""
    usable = tuple(method for method in settings.methods if neighbours_needed(settings, method) <= training)
    return usable if len(settings.methods) > 1 and usable else settings.methods


def best_beta(table: pd.DataFrame, variant: Variant, method: Method) -> float:
    """The best β of `method` with the chosen projection; the paper's where `method` was no candidate."""
    wanted = row_of_variant(replace(variant, method=method))
    same = table
    for column in ("dimensions", "eigen_power", "method", "weights"):
        if column in table:  # tables from before have no weights
            same = same[same[column] == wanted[column]]
    return float(same.iloc[0]["beta"]) if len(same) else PAPER_BETA[method]
