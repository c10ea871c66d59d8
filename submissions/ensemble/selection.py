"""Choosing the submitted variant on the synthetic query set: never on real queries or references."""

from dataclasses import asdict
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import naming
from data.ground_truth import GroundTruth
from submissions.ensemble.normalization import find_neighbours, neighbours_needed, normalize_queries
from submissions.ensemble.validation import ValidationVectors
from submissions.ensemble.variant import Variant
from submissions.scoring.metrics import evaluate
from submissions.settings import PAPER_BETA, EnsembleSettings, Method, NormalizationSettings
from submissions.vectors.files import Vectors


def choose_variant(
    candidates: ValidationVectors, ground_truth: GroundTruth, ensemble: EnsembleSettings, normalization: NormalizationSettings
) -> tuple[Variant, pd.DataFrame]:
    """Choose the variant with the highest µAP on the synthetic queries; among equals the first in the order of the recipe.

    Args:
        candidates: the validation vectors, at the largest dimension of the recipe or more.
        ground_truth: of the synthetic queries.
        ensemble: candidates of dimensions and eigenvalue power.
        normalization: candidates of methods and β.

    Returns:
        The variant, and the table of all candidates with their µAP, best first.

    Raises:
        UserError: there are too few training vectors.
    """
    projections = list(product(ensemble.dimensions, ensemble.eigen_power))
    rows: list[dict[str, float | str]] = []
    for dimensions, power in tqdm(projections, desc="choosing", unit="projection", leave=False):
        rows += _normalizations(candidates, dimensions, power, ground_truth, normalization)
    table = pd.DataFrame(rows).sort_values("micro_average_precision", ascending=False, kind="stable").reset_index(drop=True)
    best = table.iloc[0]
    return Variant(int(best["dimensions"]), float(best["eigen_power"]), best["method"], float(best["beta"])), table


def _normalizations(
    candidates: ValidationVectors, dimensions: int, power: float, ground_truth: GroundTruth, settings: NormalizationSettings
) -> list[dict[str, float | str]]:
    """The table's rows of one projection, whose vectors are freed before those of the next are made."""
    queries, references, training = candidates.weight(dimensions, power)
    with naming(candidates.name):
        normalized = apply_normalizations(queries.vectors, training, settings)
    rows = []
    for method, beta, moved in normalized:
        scores, _ = evaluate(Vectors(queries.ids, moved, queries.unreadable), references, ground_truth)
        row = asdict(Variant(dimensions, power, method, beta))
        rows.append(row | {"micro_average_precision": scores.micro_average_precision})
    return rows


def only_candidate(ensemble: EnsembleSettings, normalization: NormalizationSettings) -> tuple[Variant, pd.DataFrame] | None:
    """The variant and its table (µAP: NaN) when the recipe leaves nothing to choose, else None."""
    if max(len(ensemble.dimensions), len(ensemble.eigen_power), len(normalization.methods)) > 1:
        return None
    method = normalization.methods[0]
    betas = normalization.betas(method)
    if len(betas) > 1:
        return None
    variant = Variant(ensemble.dimensions[0], ensemble.eigen_power[0], method, betas[0])
    return variant, pd.DataFrame([asdict(variant) | {"micro_average_precision": float("nan")}])


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
    """The best β of `method` at the chosen dimension and eigenvalue power; the paper's where `method` was no candidate."""
    same = table[
        (table["dimensions"] == variant.dimensions) & (table["eigen_power"] == variant.eigen_power) & (table["method"] == method)
    ]
    return float(same.iloc[0]["beta"]) if len(same) else PAPER_BETA[method]
