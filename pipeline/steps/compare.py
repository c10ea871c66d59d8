"""`06_score.py --compare`: the difference of two submissions with its interval, and a page of the copies won and lost."""

from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import read_json
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import IscFolder, open_isc_folder
from image_copies.data.remote import as_path
from image_copies.pipeline.run.paths import RunPaths
from image_copies.pipeline.steps.score_files import rank_file
from image_copies.submissions.report.comparison_page import write_comparison
from image_copies.submissions.report.inputs import ComparisonInputs, Side
from image_copies.submissions.report.output_folder import check_output_folder
from image_copies.submissions.scoring.bootstrap import difference_interval, micro_average_precision_interval


def compare(
    paths: list[Path],
    data: Path | None = None,
    ground_truth: Path | None = None,
    edits: Path | None = None,
    report: Path | None = None,
) -> None:
    """Print the µAP of two submissions and their difference, and write a page that compares them.

    The two paths are runs (folders), submissions (.h5) or matching-track files (.csv). The page shows images of the data set, by
    default that of the second run, or of the first, whose ground truth and edits are the default, too. It is in the second run by
    default; none is written if the second path is a file.

    Raises:
        UserError: when there are more than two paths, there is no ground truth, or a file cannot be scored.
    """
    if len(paths) > 2:
        raise UserError(f"--compare was given {len(paths)} runs or files; give one or two.")
    if report is not None:
        check_output_folder(report, "--report")
    images = _open_data(data, paths)
    truth_file = ground_truth or (images.ground_truth if images else None)
    if truth_file is None:
        raise UserError("there is no ground truth to score against: give one with --ground-truth CSV.")
    truth = read_ground_truth(truth_file)
    sides = []
    for path, name in zip(paths, _choose_names(paths), strict=True):
        scores, ranked = rank_file(_find_submission(path), truth)
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
        inputs = ComparisonInputs(
            first, second, difference=gap, ground_truth=truth, queries=queries, references=references, edits_file=edits
        )
        print(f"report: {write_comparison(inputs, folder)}")


def _find_submission(path: Path) -> Path:
    """Return the file to score: a run's submission, or the file itself."""
    if not path.is_dir():
        return path
    submission = RunPaths(path).submission
    if not submission.is_file():
        raise UserError(f"{path} has no {submission.name}. Finish the run: {name_command('05_submit')} --run {path}")
    return submission


def _open_data(data: Path | None, paths: list[Path]) -> IscFolder | None:
    """Open the given data set, or else that of the second run or of the first; None where there is none."""
    known = [read_json(RunPaths(path).description).get("data") for path in reversed(paths)]
    folder = data or next((as_path(name) for name in known if name), None)
    return open_isc_folder(folder) if folder is not None else None


def _choose_names(paths: list[Path]) -> list[str]:
    """Return both names for the page: that of a run's folder or of a file, with the parent folder where they are equal."""
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
