"""`06_score.py --subsets`: µAP of every single model (ISC2021 paper, table 1) and of every ensemble of a run's models."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import open_isc_folder
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.search_device import search_on_gpu
from image_copies.submissions.ensemble.normalization import METHODS, normalize_by_variant
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.ensemble.rules import require_training_only
from image_copies.submissions.ensemble.variant import Variant, read_choice
from image_copies.submissions.scoring.metrics import Scores, evaluate
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import Vectors
from image_copies.submissions.vectors.rows import join_blocks

MAX_MODELS = 8  # 255 subsets


@dataclass(frozen=True)
class SubsetScores:
    """One row of the table."""

    models: tuple[str, ...]
    plain: Scores  # without query normalisation
    normalized: Scores  # with the run's chosen one


@search_on_gpu()
def print_subsets(run: Run) -> None:
    """Print the scores of every subset as a table, best first.

    Raises:
        UserError: when the data set has no ground truth, or the run has more than MAX_MODELS models.
    """
    rows = list(tqdm(score_subsets(run), desc="scoring subsets", unit="subset", leave=False))
    variant, _ = read_choice(run.paths.choice)
    table = Table("models", "µAP", "recall at P90", f"µAP, {METHODS[variant.method].label}", "recall at P90")
    for row in sorted(rows, key=lambda row: -row.normalized.micro_average_precision):
        both = (row.plain, row.normalized)
        figures = [f"{value:.4f}" for s in both for value in (s.micro_average_precision, s.recall_at_precision_90)]
        table.add_row(" + ".join(row.models), *figures)
    Console(width=140).print(table)


def score_subsets(run: Run) -> Iterator[SubsetScores]:
    """Score each subset of the run's models, single models first, each concatenated and projected as in the run's variant.

    A PCA is fitted for every subset on the training vectors alone; it has at most as many dimensions as the models together.
    Weights that the run may have chosen apply to the whole ensemble and are not used.

    Raises:
        UserError: when the data set has no ground truth, or the run has more than MAX_MODELS models.
    """
    data = open_isc_folder(run.data)
    if data.ground_truth is None:
        raise UserError(f"{run.data} has no public_ground_truth.csv, so that subsets of models cannot be scored. Add the file.")
    models = list(run.recipe.models)
    if len(models) > MAX_MODELS:
        raise UserError(
            f"--subsets: {len(models)} models have {2 ** len(models) - 1} subsets. Use a recipe with at most {MAX_MODELS} models."
        )
    truth = read_ground_truth(data.ground_truth)
    variant, _ = read_choice(run.paths.choice)
    for chosen in chain.from_iterable(combinations(models, size) for size in range(1, len(models) + 1)):
        yield _score(run, chosen, variant, truth)


def _score(run: Run, models: tuple[str, ...], variant: Variant, truth: GroundTruth) -> SubsetScores:
    training, queries, references = (
        open_concatenated([run.paths.embeddings(model, part) for model in models]) for part in ("training", "query", "reference")
    )
    require_training_only(training.ids, {"query": queries.ids, "reference": references.ids})
    sample = training.sample(run.recipe.ensemble.training_sample, run.recipe.seed)
    dimensions = min(variant.dimensions, training.dimensions)
    projection = fit_projection(sample, dimensions)

    def project(part: ConcatenatedVectors) -> Vectors:
        blocks = (projection.apply(block, dimensions, variant.eigen_power) for block in part.blocks())
        vectors = join_blocks(blocks, len(part), dimensions)
        vectors[part.unreadable] = 0
        return Vectors(part.ids, vectors, part.unreadable)

    found, among, against = project(queries), project(references), project(training).readable()
    plain, _ = evaluate(found, among, truth)
    moved = normalize_by_variant(found.vectors, against, variant, run.recipe.normalization)
    normalized, _ = evaluate(Vectors(found.ids, moved, found.unreadable), among, truth)
    return SubsetScores(models, plain, normalized)
