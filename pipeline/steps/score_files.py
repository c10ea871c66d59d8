"""Scores of files: of a submission, a matching-track file, or any vectors; without torch."""

import json
import sys
from pathlib import Path

from image_copies.data.errors import prefix_errors
from image_copies.data.files import digest_file, write_text
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.pipeline.run.provenance import describe_origin
from image_copies.pipeline.steps.search_device import search_on_gpu
from image_copies.submissions.formats.matching_track import evaluate_matches
from image_copies.submissions.formats.submission import describe_oddities, open_submission
from image_copies.submissions.scoring.any_vectors import (
    normalize_vectors,
    open_set,
    rank_vectors,
    read_set,
    reduce_vectors,
)
from image_copies.submissions.scoring.breakdown import read_edits, tabulate_recall_by_edit, tabulate_recall_by_number, write_curve
from image_copies.submissions.scoring.metrics import RankedPairs, Scores, evaluate


def score_file(
    path: Path, ground_truth: Path, output: Path | None = None, details: Path | None = None, edits: Path | None = None
) -> None:
    """Score a submission or matching-track file (.h5 or .csv) and print its scores as JSON, which `output` gets as well.

    The folder `details` gets the precision-recall curve and, with the edits of the queries, the recall by edit.

    Raises:
        UserError: when a file cannot be read, is invalid or does not match the ground truth.
    """
    truth = read_ground_truth(ground_truth)
    scores, ranked = rank_file(path, truth)
    _print_scores(scores, {"file": path, "ground_truth": ground_truth}, output)
    if details is not None:
        write_details(details, ranked, truth, edits)
        print(f"details: {details}")


@search_on_gpu()
def rank_file(path: Path, truth: GroundTruth) -> tuple[Scores, RankedPairs]:
    """Score a descriptor submission (.h5) or a matching-track file (.csv).

    Raises:
        UserError: when the file is invalid, or lacks queries or references of the ground truth.
    """
    if path.suffix.lower() == ".csv":
        return evaluate_matches(path, truth)
    queries, references = open_submission(path)
    with prefix_errors(path):
        result = evaluate(queries, references, truth)
    for oddity in describe_oddities(queries, references):
        print(f"warning: {path}: {oddity}", file=sys.stderr)
    return result


def write_details(folder: Path, ranked: RankedPairs, truth: GroundTruth, edits_file: Path | None) -> None:
    """Write `precision_recall.csv` and, with an `edits_file`, `recall_by_edit.csv` and `recall_by_number_of_edits.csv`.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_curve(folder / "precision_recall.csv", ranked)
    if edits_file is not None:
        edits = read_edits(edits_file)
        write_text(folder / "recall_by_edit.csv", tabulate_recall_by_edit(ranked, truth, edits).to_csv(index=False))
        write_text(folder / "recall_by_number_of_edits.csv", tabulate_recall_by_number(ranked, truth, edits).to_csv(index=False))


def score_vectors(
    queries: Path,
    references: Path,
    ground_truth: Path,
    training: Path | None = None,
    dimensions: int | None = None,
    output: Path | None = None,
) -> None:
    """Score files of vectors and print the scores as JSON, which `output` gets as well.

    With `training` vectors, the queries are normalised against them by method 2 with the paper's parameters, after all have been
    reduced to so many `dimensions`, if that is given.

    Raises:
        UserError: when a file cannot be read, or the files do not belong together.
    """
    truth, asked = read_ground_truth(ground_truth), read_set(queries)
    searched = open_set(references, "reference")
    if training is not None:
        held = read_set(training)
        if dimensions is not None:
            asked, searched, held = reduce_vectors([asked, read_set(references, "reference"), held], held, dimensions)
        asked = normalize_vectors(asked, held)
    scores, _ = rank_vectors(asked, searched, truth)
    given = {"queries": queries, "references": references, "ground_truth": ground_truth, "training": training}
    _print_scores(scores, {name: path for name, path in given.items() if path is not None}, output)


def _print_scores(scores: Scores, given: dict[str, Path], output: Path | None) -> None:
    """Print the scores and what they were made from as JSON, which `output` gets as well."""
    origin = describe_origin(**{name: digest_file(path) for name, path in given.items()})
    text = json.dumps(scores.as_dict() | {"made_from": origin}, indent=1)
    print(text)
    if output is not None:
        write_text(output, text + "\n")
