"""Scores of files: of a submission, a matching-track file, or any vectors; and two of them compared. Without torch."""

import json
import sys
from pathlib import Path

from image_copies.data import commands, files, layout, remote
from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.submissions.formats.matching_track import evaluate_matches
from image_copies.submissions.formats.submission import describe_oddities, open_submission
from image_copies.submissions.scoring import any_vectors, breakdown, metrics

from ..run.paths import RunPaths
from ..run.step import describe_origin, search_on_gpu

SCORE_TITLES = {
    "micro_average_precision": "µAP",
    "recall_at_precision_90": "recall at P90",
    "recall_at_rank_1": "recall at rank 1",
    "recall_at_rank_10": "recall at rank 10",
}


def score_file(
    path: Path,
    ground_truth: Path,
    output: Path | None = None,
    details: Path | None = None,
    edits: Path | None = None,
    as_json: bool = False,
) -> None:
    """Score a submission or matching-track file (.h5 or .csv) and print its scores; `output` gets them as JSON.

    The folder `details` gets the precision-recall curve and, with the edits of the queries, the recall by edit.

    Raises:
        UserError: when a file cannot be read, is invalid or does not match the ground truth.
    """
    truth = read_ground_truth(ground_truth)
    scores, ranked = rank_file(path, truth)
    _print_scores(scores, {"file": path, "ground_truth": ground_truth}, output, as_json)
    if details is not None:
        write_details(details, ranked, truth, edits)
        print(f"details: {details}")


@search_on_gpu()
def rank_file(path: Path, truth: GroundTruth) -> tuple[metrics.Scores, metrics.RankedPairs]:
    """Score a descriptor submission (.h5) or a matching-track file (.csv).

    Raises:
        UserError: when the file is invalid, or lacks queries or references of the ground truth.
    """
    if path.suffix.lower() == ".csv":
        return evaluate_matches(path, truth)
    queries, references = open_submission(path)
    with prefix_errors(path):
        result = metrics.evaluate(queries, references, truth)
    for oddity in describe_oddities(queries, references):
        print(f"warning: {path}: {oddity}", file=sys.stderr)
    return result


def write_details(
    folder: Path, ranked: metrics.RankedPairs, truth: GroundTruth, edits_file: Path | None
) -> None:
    """Write `precision_recall.csv` and, with an `edits_file`, `recall_by_edit.csv`.

    Raises:
        UserError: when the CSV of edits cannot be read, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    breakdown.write_curve(folder / "precision_recall.csv", ranked)
    if edits_file is not None:
        edits = breakdown.read_edits(edits_file)
        files.write_text(
            folder / "recall_by_edit.csv",
            breakdown.tabulate_recall_by_edit(ranked, truth, edits).to_csv(index=False),
        )


def score_vectors(
    queries: Path,
    references: Path,
    ground_truth: Path,
    training: Path | None = None,
    dimensions: int | None = None,
    output: Path | None = None,
    as_json: bool = False,
) -> None:
    """Score files of vectors and print the scores; `output` gets them as JSON.

    With `training` vectors, the queries are normalised against them by method 2 with the paper's parameters, after all have been
    reduced to so many `dimensions`, if that is given.

    Raises:
        UserError: when a file cannot be read, or the files do not belong together.
    """
    truth = read_ground_truth(ground_truth)
    asked = any_vectors.read_set(queries)
    searched = any_vectors.open_set(references, "reference")
    if training is not None:
        held = any_vectors.read_set(training)
        if dimensions is not None:
            asked, searched, held = any_vectors.reduce_vectors(
                [asked, any_vectors.read_set(references, "reference"), held], held, dimensions
            )
        asked = any_vectors.normalize_vectors(asked, held)
    scores, _ = any_vectors.rank_vectors(asked, searched, truth)
    given = {
        "queries": queries,
        "references": references,
        "ground_truth": ground_truth,
        "training": training,
    }
    _print_scores(scores, {name: path for name, path in given.items() if path is not None}, output, as_json)


def _print_scores(
    scores: metrics.Scores, given: dict[str, Path], output: Path | None, as_json: bool
) -> None:
    """Print the scores, a line each, or `as_json` with what they were made from, as `output` gets them."""
    origin = describe_origin(**{name: files.digest_file(path) for name, path in given.items()})
    text = json.dumps(scores.as_dict() | {"made_from": origin}, indent=1)
    if as_json:
        print(text)
    else:
        for name, title in SCORE_TITLES.items():
            print(f"{title:18}{getattr(scores, name):.4f}")
        print(
            f"of {scores.queries:,} queries, {scores.references:,} references and {scores.true_pairs:,} copies"
        )
    if output is not None:
        files.write_text(output, text + "\n")


def compare(paths: list[Path], data: Path | None = None, ground_truth: Path | None = None) -> None:
    """Print the µAP of two submissions and their difference.

    The two paths are runs (folders), submissions (.h5) or matching-track files (.csv). The ground truth is by default that of the
    data set, which is by default that of the second run, or of the first.

    Raises:
        UserError: when there are more than two paths, there is no ground truth, or a file cannot be scored.
    """
    if len(paths) > 2:
        raise UserError(f"--compare was given {len(paths)} runs or files; give one or two.")
    truth_file = ground_truth or _find_ground_truth(data, paths)
    if truth_file is None:
        raise UserError("there is no ground truth to score against: give one with --ground-truth CSV.")
    truth = read_ground_truth(truth_file)
    first, second = (rank_file(_find_submission(path), truth)[1] for path in paths)
    for path, ranked in zip(paths, (first, second), strict=True):
        own = metrics.micro_average_precision_interval(ranked, truth)
        print(f"{path}: µAP {own.value:.4f} (95 % of bootstrap draws {own.low:.4f} to {own.high:.4f})")
    gap = metrics.difference_interval(first, second, truth)
    print(
        f"second minus first: {gap.value:+.4f} (95 % of bootstrap draws {gap.low:+.4f} to {gap.high:+.4f})"
    )


def _find_submission(path: Path) -> Path:
    """Return the file to score: a run's submission, or the file itself."""
    if not path.is_dir():
        return path
    submission = RunPaths(path).submission
    if not submission.is_file():
        raise UserError(
            f"{path} has no {submission.name}. Finish the run: {commands.name_command('05_submit')} --run {path}"
        )
    return submission


def _find_ground_truth(data: Path | None, paths: list[Path]) -> Path | None:
    """Return the ground truth of the given data set, or else of that of the second run or the first; None for none."""
    known = [files.read_json(RunPaths(path).description).get("data") for path in reversed(paths)]
    folder = data or next((remote.as_path(name) for name in known if name), None)
    return layout.open_isc_folder(folder).ground_truth if folder is not None else None
