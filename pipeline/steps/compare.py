"""Two submissions compared: the difference with its interval, and a page of the queries that were won and lost."""

import argparse
from pathlib import Path

from data.errors import UserError
from data.ground_truth import read_ground_truth
from data.images import ImageSet
from data.layout import IscFolder, open_isc_folder
from pipeline.run.stage import open_run, read_json
from pipeline.steps.score import ranked_file
from submissions.report.comparison_page import ComparisonInputs, Side, write_comparison
from submissions.report.place import check_place
from submissions.scoring.bootstrap import difference_interval, micro_average_precision_interval
from submissions.search.exact import rank_and_ranks


def compare(options: argparse.Namespace) -> None:
    """Print both µAPs and their difference; write the page into --report, or into the second's folder where it is a run.

    One path is compared with the run, two with each other; each is a run folder, a submission (.h5) or a matching track's .csv.
    """
    if rank_and_ranks()[1] > 1:
        raise UserError("--compare runs on one process: start it without torchrun.")
    if len(options.compare) > 2:
        raise UserError(f"--compare takes one or two runs or files, not {len(options.compare)}.")
    if options.report is not None:
        check_place(options.report, "--report")
    paths = options.compare if len(options.compare) == 2 else [*options.compare, open_run(options).folder]
    data = _data(options, paths)
    truth_file = options.ground_truth or (data.ground_truth if data else None)
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
    folder = options.report or (paths[1] / "compare" / first.name if paths[1].is_dir() else None)
    if folder is not None:
        queries, references = (data.query, data.reference) if data else (ImageSet([], []), ImageSet([], []))
        edits = options.edits or (data.query_edits if data else None)
        print(f"report: {write_comparison(ComparisonInputs(first, second, gap, truth, queries, references, edits), folder)}")


def _submission(path: Path) -> Path:
    """The file to score: a run's submission, or the file itself."""
    if not path.is_dir():
        return path
    if not (path / "submission.h5").is_file():
        raise UserError(f"{path} holds no submission.h5. Finish the run: python pipeline/05_submit.py --run {path}")
    return path / "submission.h5"


def _data(options: argparse.Namespace, paths: list[Path]) -> IscFolder | None:
    """The data set of --data, or else that of the second run, or of the first."""
    known = [read_json(path / "run.json").get("data") for path in reversed(paths)]
    folder = options.data or next((Path(data) for data in known if data), None)
    return open_isc_folder(folder) if folder is not None else None


def _names(paths: list[Path]) -> list[str]:
    """What the page calls the two: a run's folder, a file's name; with the folder above where they are the same."""
    whole = [path.resolve() for path in paths]
    names = [path.parent.name if path.name == "submission.h5" else path.stem if path.is_file() else path.name for path in whole]
    if names[0] != names[1]:
        return names
    longer = [f"{path.parent.name}-{path.name}" for path in whole]
    return longer if longer[0] != longer[1] else ["first", "second"]
