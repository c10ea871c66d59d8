"""Step 06's work: score every variant of the run on the same images, write scores.json and the report.

Without a ground truth, write a report that says so and suggests copies, and no scores.json.
"""

import json
import shutil
from dataclasses import dataclass
from typing import Any

from image_copies.data.errors import prefix_errors
from image_copies.data.files import digest_file, write_text
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.layout import IscFolder, open_isc_folder
from image_copies.submissions.ensemble.normalization import METHODS, with_betas
from image_copies.submissions.ensemble.selection import apply_normalizations, find_best_beta
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.formats.matching_track import read_matches
from image_copies.submissions.formats.submission import describe_oddities, open_submission
from image_copies.submissions.report import gallery, inputs, page
from image_copies.submissions.scoring import metrics
from image_copies.submissions.vectors.files import Vectors, VectorSet, open_vectors, read_vectors

from ..run.run import Run
from ..run.step import describe_origin, fingerprint_images, read_manifest, search_on_gpu
from .score_files import write_details
from .score_table import collect_warnings, describe_run, read_synthetic


@dataclass(frozen=True)
class ScoredVariant:
    """One row of the table of variants."""

    name: str
    scores: metrics.Scores
    ranked: metrics.RankedPairs  # best first
    interval: metrics.Interval  # of its µAP
    submitted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the row as it is written to scores.json."""
        bounds = {"micro_average_precision_95": [self.interval.low, self.interval.high]}
        return {"name": self.name, "submitted": self.submitted} | self.scores.as_dict() | bounds


def _score_variant(
    name: str, queries: Vectors, references: VectorSet, truth: GroundTruth, submitted: bool = False
) -> ScoredVariant:
    scores, ranked = metrics.evaluate(queries, references, truth)
    return ScoredVariant(
        name, scores, ranked, metrics.micro_average_precision_interval(ranked, truth), submitted
    )


@search_on_gpu()
def score_variants(run: Run) -> None:
    """Write `scores.json` (scores of the submission and of all variants), the details and the report.

    Raises:
        ValueError: when the data set has no ground truth.
        UserError: when a file of an earlier step cannot be read, or does not match the ground truth.
    """
    data = open_isc_folder(run.data)
    if data.ground_truth is None:
        raise ValueError("score_variants needs a ground truth")
    truth = read_ground_truth(data.ground_truth)
    variant, _ = read_choice(run.paths.choice)
    name = (
        f"submitted: {variant.dimensions}-d, power {variant.eigen_power:g}, {METHODS[variant.method].label}"
    )
    parts = open_submission(run.paths.submission)
    oddities = describe_oddities(*parts)
    submitted = _score_variant(name, *parts, truth, submitted=True)
    ensemble = _score_ensembles(run, truth)
    models = _score_models(run, truth)
    rows = [*models, *ensemble, submitted]
    variants = [row.as_dict() for row in rows]
    write_details(run.paths.details, submitted.ranked, truth, data.query_edits)
    reached = submitted.scores.micro_average_precision
    better = [row for row in models if row.scores.micro_average_precision > reached]
    oddities += [
        f"{row.name} alone has a µAP of {row.scores.micro_average_precision:.3f}, the submission {reached:.3f}"
        for row in better
    ]
    warnings = collect_warnings(run) + oddities
    synthetic = read_synthetic(run.paths.choice)
    shown = inputs.ReportInputs(
        **describe_run(run, data, warnings),
        variants=variants,
        scores=submitted.scores.as_dict(),
        interval=submitted.interval,
        ranked=submitted.ranked,
        ground_truth=truth,
    )
    page.write_report(shown, run.paths.report)
    figures = {key: value for key, value in variants[-1].items() if key not in ("name", "submitted")}
    rest = {"variants": variants, "synthetic": synthetic, "warnings": warnings}
    rest |= {"made_from": _describe_origin(run, data)}
    write_text(run.paths.scores, json.dumps(figures | rest, indent=1) + "\n")


def report_unscored(run: Run) -> None:
    """Write the report of a run whose data set has no ground truth: it suggests the best pairs of its `matches.csv` as copies.

    Scores of a ground truth that there was before are removed: they would be taken for those of this submission.

    Raises:
        UserError: when a file of an earlier step cannot be read, or the disk is full.
    """
    run.paths.scores.unlink(missing_ok=True)
    if run.paths.details.exists():
        shutil.rmtree(run.paths.details)
    warnings = collect_warnings(run) + describe_oddities(*open_submission(run.paths.submission))
    about = describe_run(run, open_isc_folder(run.data), warnings)
    page.write_unscored_report(
        inputs.UnscoredInputs(**about, pairs=_find_best_pairs(run)), run.paths.report
    )


def _find_best_pairs(run: Run) -> list[tuple[str, str, float]]:
    """Query id, reference id and score of the run's best pairs, best first; without unreadable images."""
    pairs = sorted(read_matches(run.paths.matches), key=lambda pair: -pair[2])
    for column, path in ((0, run.paths.normalized_queries), (1, run.paths.projected("reference"))):
        shape = open_vectors(path)
        unreadable = {shape.ids[row] for row in shape.unreadable.nonzero()[0]}
        pairs = [pair for pair in pairs if pair[column] not in unreadable]
    return pairs[: gallery.MAX_SUGGESTED]


def _describe_origin(run: Run, data: IscFolder) -> dict[str, Any]:
    """What the run's results were made from: fingerprints of recipe, data and submission, code, versions, threads of training."""
    threads = {name: read_manifest(run, f"01_train {name}").get("threads") for name in run.recipe.models}
    sets = {"training": data.training, "reference": data.reference, "query": data.query}
    return describe_origin(
        recipe=run.recipe.fingerprint(),
        data={name: fingerprint_images(images) for name, images in sets.items()}
        | {"ground truth": digest_file(data.ground_truth or run.data)},
        submission=digest_file(run.paths.submission),
        threads=threads,
    )


def _score_models(run: Run, truth: GroundTruth) -> list[ScoredVariant]:
    rows = []
    for model in run.recipe.models:
        queries = read_vectors(run.paths.embeddings(model, "query"))
        rows.append(
            _score_variant(
                f"model: {model}", queries, open_vectors(run.paths.embeddings(model, "reference")), truth
            )
        )
    return rows


def _score_ensembles(run: Run, truth: GroundTruth) -> list[ScoredVariant]:
    """Score the ensemble without and with each normalisation, at the β chosen for it on the synthetic queries."""
    variant, table = read_choice(run.paths.choice)
    queries = read_vectors(run.paths.projected("query"))
    references, training = (open_vectors(run.paths.projected(part)) for part in ("reference", "training"))
    betas = {method: find_best_beta(table, variant, method) for method in METHODS}
    chosen = with_betas(run.recipe.normalization, betas)
    rows = []
    with prefix_errors(run.paths.projected("training")):
        candidates = apply_normalizations(queries.vectors, training.readable(), chosen)
    for method, beta, moved in candidates:
        name = "ensemble" if method == "none" else f"ensemble, {METHODS[method].label} (β {beta:g})"
        rows.append(
            _score_variant(name, Vectors(queries.ids, moved, queries.unreadable), references, truth)
        )
    return rows
