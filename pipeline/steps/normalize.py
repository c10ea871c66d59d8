"""Step 04's work: query normalisation against the training vectors (ISC2021 paper, section 2.7), and --sweep, which tries it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from image_copies.data.errors import prefix_errors
from image_copies.data.ground_truth import read_ground_truth
from image_copies.pipeline.run.run import Run, assign_training_roles
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.pipeline.steps.ensemble import open_joined, project_candidates
from image_copies.submissions.ensemble.normalization import (
    METHODS,
    append_zero,
    find_neighbours,
    normalize_by_variant,
    normalize_queries,
    normalize_scores,
    subtract_negatives,
)
from image_copies.submissions.ensemble.projection import require_training_only
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors, open_vectors, read_vectors, write_vectors


@search_on_gpu()
def normalize(run: Run) -> None:
    """Normalise the queries by the chosen variant and write them.

    Raises:
        UserError: when a training image is also a query or a reference, there are too few training images, or a file cannot be
            read.
    """
    paths = run.paths
    variant, _ = read_choice(paths.choice)
    queries, training = read_vectors(paths.projected("query")), open_vectors(paths.projected("training"))
    references = open_vectors(paths.projected("reference"))
    require_training_only(training.ids, {"query": queries.ids, "reference": references.ids})
    with prefix_errors(paths.projected("training")):
        moved = normalize_by_variant(queries.vectors, training.readable(), variant, run.recipe.normalization)
    write_vectors(paths.normalized_queries, queries.ids, [moved], queries.unreadable)


BETAS = (0.25, 0.5, 1.0, 1.8, 2.5)  # strengths β, and α of score normalisation
Matrix = NDArray[np.float32]


@search_on_gpu()
def print_sweep(run: Run) -> None:
    """Print µAP of every normalisation, best first.

    PCA and neighbours come from training images that the synthetic queries were not made from.

    Raises:
        UserError: when an earlier step has not been done, or there are too few training images.
    """
    from rich.console import Console  # here: only training installs it
    from rich.table import Table

    variant, _ = read_choice(run.paths.choice)
    training, synthetic = (
        open_joined(run.paths, run.recipe.models, part) for part in ("training", "synthetic")
    )
    roles = assign_training_roles(run)
    candidates = project_candidates(
        training, synthetic, roles, run.recipe, variant.dimensions, variant.weights
    )
    queries, references, base = candidates.weight(variant.dimensions, variant.eigen_power)
    truth = read_ground_truth(run.paths.query_ground_truth)
    results = []
    normalisations = _normalize_each(queries.vectors, references.vectors, base)
    for name, moved, against in tqdm(normalisations, desc="sweeping", unit="normalisation", leave=False):
        scores, _ = evaluate(
            Vectors(queries.ids, moved, queries.unreadable),
            Vectors(references.ids, against, references.unreadable),
            truth,
        )
        results.append((scores.micro_average_precision, name))
    table = Table(
        "normalisation", "µAP", title=f"{len(queries)} synthetic queries, {len(references)} references"
    )
    for score, name in sorted(results, key=lambda result: -result[0]):
        table.add_row(name, f"{score:.4f}")
    Console(width=100).print(table)


def _normalize_each(
    queries: Matrix, references: Matrix, training: Matrix
) -> Iterator[tuple[str, Matrix, Matrix]]:
    """Yield name, queries [n, d] and references [m, d] of every normalisation; the name gives the k that was used."""
    most = min(100, len(training))
    nearest = find_neighbours(queries, training, most)
    similar = min(NormalizationSettings().similarity_neighbours, most)
    for method, row in METHODS.items():
        directed = "direction_neighbours" in row.neighbours
        for k in sorted({min(k, most) for k in (3, 10, 30, 100)}) if directed else (1,):
            settings = NormalizationSettings(similarity_neighbours=similar, direction_neighbours=k)
            for beta in BETAS if row.beta else (0.0,):
                name = row.label + (f", β {beta:g}" if row.beta else "") + (f", k {k}" if directed else "")
                yield name, normalize_queries(queries, training, nearest, method, beta, settings), references
    for alpha in BETAS:
        scored = normalize_scores(queries, training, alpha, similar)
        yield f"score normalisation, α {alpha:g}, k {similar}", scored, append_zero(references)
    k = min(10, most)
    for beta in (0.2, 0.35, 0.5):
        moved, against = (subtract_negatives(side, training, beta, k) for side in (queries, references))
        yield f"negative embedding subtraction, β {beta:g}, k {k}", moved, against
