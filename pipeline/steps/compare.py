"""Two submissions compared: the difference with its interval, and a page of the queries that were won and lost."""

from pathlib import Path

from data.errors import UserError
from data.files import read_json
from data.ground_truth import read_ground_truth
from data.images import ImageSet
from data.layout import IscFolder, open_isc_folder
from data.process import process_count
from pipeline.run.paths import RunPaths
from pipeline.steps.score import ranked_file
from submissions.report.comparison_page import ComparisonInputs, Side, write_comparison
from submissions.report.output_folder import check_output_folder
from submissions.scoring.bootstrap import difference_interval, micro_average_precision_interval


def compare(
    paths: list[Path],
    data: Path | None = None,
    ground_truth: Path | None = None,
    edits: Path | None = None,
    report: Path | None = None,
) -> None:
    """Print both µAPs and their difference; write the page into `report`, or into the second's folder where it is a run.

    Args:
        paths: The two that are compared, each a run folder, a submission (.h5) or a matching track's .csv.
        data: Data set whose images the page shows; without it that of the second run, or of the first.
        ground_truth: CSV to score with; without it the data set's.
        edits: CSV of the queries' edits; without it the data set's.
        report: Where the page goes.

    Raises:
        UserError: More than two paths, several processes, nothing to score with, or a file that cannot be scored.
    """
    if process_count() > 1:
        raise UserError("--compare runs on one process: start it without torchrun.")
    if len(paths) > 2:
        raise UserError(f"--compare takes one or two runs or files, not {len(paths)}.")
    if report is not None:
        check_output_folder(report, "--report")
    images = _open_data(data, paths)
    truth_file = ground_truth or (images.ground_truth if images else None)
    if truth_file is None:
        raise UserError("there is nothing to score with: name a ground truth with --ground-truth CSV.")
    truth = read_ground_truth(truth_file)
    sides = []
    for path, name in zip(paths, _names(paths), strict=True):
        scores, ranked = ranked_file(_submission(path), truth)
        own = micro_average_precision_interval(ranked, truth)
        print(f"{path}: µAP {own.value:.4f} (95 % of bootstrap draws {own.low:.4f} to {own.high:.4f})")
        sides.append(Side(name, scores, ranked, own))
    first, second = sides
    gap = difference_interval(first.ranked, second.ranked, truth)
    print(f"second minus first: {gap.value:+.4f} (95 % of bootstrap draws {gap.low:+.4f} to {gap.high:+.4f})")
    folder = report or (RunPaths(paths[1]).comparison(first.name) if paths[1].is_dir() else None)
    if folder is not None:
        queries, references = (images.query, images.reference) if images else (ImageSet([], []), ImageSet([], []))
        edits = edits or (images.query_edits if images else None)
        print(f"report: {write_comparison(ComparisonInputs(first, second, gap, truth, queries, references, edits), folder)}")


def _submission(path: Path) -> Path:
    """The file to score: a run's submission, or the file itself."""
    if not path.is_dir():
        return path
    submission = RunPaths(path).submission
    if not submission.is_file():
        raise UserError(f"{path} holds no {submission.name}. Finish the run: python pipeline/05_submit.py --run {path}")
    return submission


def _open_data(data: Path | None, paths: list[Path]) -> IscFolder | None:
    """The data set that is named, or else that of the second run, or of the first."""
    known = [read_json(RunPaths(path).description).get("data") for path in reversed(paths)]
    folder = data or next((Path(name) for name in known if name), None)
    return open_isc_folder(folder) if folder is not None else None


def _names(paths: list[Path]) -> list[str]:
    """What the page calls the two: a run's folder, a file's name; with the parent folder where they are the same."""
    whole = [path.resolve() for path in paths]
    names = [_name(path) for path in whole]
    if names[0] != names[1]:
        return names
    longer = [f"{path.parent.name}-{path.name}" for path in whole]
    return longer if longer[0] != longer[1] else ["first", "second"]


def _name(path: Path) -> str:
    if path == RunPaths(path.parent).submission:
        return path.parent.name
    return path.stem if path.is_file() else path.name
