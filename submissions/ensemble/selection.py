"""Choosing the submitted variant on the synthetic query set: never on real queries or references."""

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from data.errors import UserError, naming
from data.ground_truth import GroundTruth
from submissions.ensemble.candidates import Candidates
from submissions.ensemble.normalization import Neighbours, find_neighbours, normalize_queries
from submissions.scoring.metrics import evaluate
from submissions.settings import EnsembleSettings, Method, NormalizationSettings
from submissions.vectors.files import Vectors

PAPER_BETA: dict[Method, float] = {"none": 0.0, "method1": 2.0, "method2": 1.8}


@dataclass(frozen=True)
class Variant:
    """One way from joined embeddings to submitted vectors; `beta` is 0 without normalisation."""

    dimensions: int
    eigen_power: float
    method: Method
    beta: float


def choose_variant(
    candidates: Candidates, ground_truth: GroundTruth, ensemble: EnsembleSettings, normalization: NormalizationSettings
) -> tuple[Variant, pd.DataFrame]:
    """The variant with the highest µAP on the synthetic queries, and the µAP of all of them, best first.

    candidates: at the largest dimension of the recipe. Among equals the first in the order of the recipe wins.
    """
    projections = list(product(ensemble.dimensions, ensemble.eigen_power))
    rows: list[dict[str, float | str]] = []
    for dimensions, power in tqdm(projections, desc="choosing", unit="projection", leave=False):
        rows += _normalizations(candidates, dimensions, power, ground_truth, normalization)
    table = pd.DataFrame(rows).sort_values("micro_average_precision", ascending=False, kind="stable").reset_index(drop=True)
    best = table.iloc[0]
    return Variant(int(best["dimensions"]), float(best["eigen_power"]), best["method"], float(best["beta"])), table


def _normalizations(
    candidates: Candidates, dimensions: int, power: float, ground_truth: GroundTruth, settings: NormalizationSettings
) -> list[dict[str, float | str]]:
    """Rows of the table for one projection, whose vectors are gone before the next one's are made."""
    queries, references, training = candidates.under(dimensions, power)
    with naming(candidates.name):
        normalized = normalized_candidates(queries.vectors, training, settings)
    rows = []
    for method, beta, moved in normalized:
        scores, _ = evaluate(Vectors(queries.ids, moved, queries.unreadable), references, ground_truth)
        row = asdict(Variant(dimensions, power, method, beta))
        rows.append(row | {"micro_average_precision": scores.micro_average_precision})
    return rows


def only_candidate(ensemble: EnsembleSettings, normalization: NormalizationSettings) -> tuple[Variant, pd.DataFrame] | None:
    """The variant and its table when the recipe leaves nothing to choose, else None."""
    betas = {"none": (0.0,), "method1": normalization.beta1, "method2": normalization.beta2}
    if max(len(ensemble.dimensions), len(ensemble.eigen_power), len(normalization.methods)) > 1:
        return None
    method = normalization.methods[0]
    if len(betas[method]) > 1:
        return None
    variant = Variant(ensemble.dimensions[0], ensemble.eigen_power[0], method, betas[method][0])
    return variant, pd.DataFrame([asdict(variant) | {"micro_average_precision": float("nan")}])


def normalized_candidates(
    queries: NDArray[np.float32], training: NDArray[np.float32], settings: NormalizationSettings
) -> list[tuple[Method, float, NDArray[np.float32]]]:
    """Every (method, β) of the recipe with the queries it gives; the neighbours are searched once."""
    betas = {"none": [0.0], "method1": settings.beta1, "method2": settings.beta2}
    methods = usable_methods(settings, len(training))
    needed = max(settings.similarity_neighbours, settings.direction_neighbours if "method2" in methods else 1)
    neighbours: Neighbours | None = None
    candidates = []
    for method in methods:
        if method != "none" and neighbours is None:
            neighbours = find_neighbours(queries, training, needed)
        for beta in betas[method]:
            if neighbours is None:
                candidates.append((method, beta, queries))
            else:
                moved = normalize_queries(queries, training, neighbours, method, beta, settings.similarity_neighbours)
                candidates.append((method, beta, moved))
    return candidates


def usable_methods(settings: NormalizationSettings, training: int) -> tuple[Method, ...]:
    """The methods whose neighbours `training` vectors can give; all of them where only one is asked for, to fail clearly."""
    needed = {"none": 0, "method1": settings.similarity_neighbours, "method2": settings.direction_neighbours}
    usable = tuple(method for method in settings.methods if needed[method] <= training)
    return usable if len(settings.methods) > 1 and usable else settings.methods


def best_beta(table: pd.DataFrame, variant: Variant, method: Method) -> float:
    """The β that was best for `method` at the chosen dimension and eigenvalue power; the paper's where it was no candidate."""
    same = table[
        (table["dimensions"] == variant.dimensions) & (table["eigen_power"] == variant.eigen_power) & (table["method"] == method)
    ]
    return float(same.iloc[0]["beta"]) if len(same) else PAPER_BETA[method]


def write_choice(folder: Path, variant: Variant, table: pd.DataFrame) -> None:
    """`choice.csv`: every candidate, the chosen one first."""
    table.assign(chosen=[True, *[False] * (len(table) - 1)]).to_csv(folder / "choice.csv", index=False)


def read_choice(folder: Path) -> tuple[Variant, pd.DataFrame]:
    """What `write_choice` wrote; UserError when the file is another thing."""
    path = folder / "choice.csv"
    try:
        table = pd.read_csv(path)
        best = table.iloc[0]
        return Variant(int(best["dimensions"]), float(best["eigen_power"]), best["method"], float(best["beta"])), table
    except (OSError, ValueError, KeyError, IndexError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(f"{path} is not the choice that step 03 wrote ({error!r}). Delete it and do step 03 again.") from error
