"""The run's report: scores, or without a ground truth suggestions; curves, steps and versions."""

from pathlib import Path
from typing import Any

from image_copies.data.files import read_json
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.layout import IscFolder
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.step import code_version, versions
from image_copies.pipeline.steps.score_table import read_curve, read_synthetic
from image_copies.submissions.report.inputs import ReportInputs, StepDone, UnscoredInputs
from image_copies.submissions.report.page import write_report, write_unscored_report
from image_copies.submissions.scoring.metrics import Interval, RankedPairs, Scores


def write_run_report(
    run: Run,
    data: IscFolder,
    variants: list[dict[str, Any]],
    submitted: tuple[Scores, RankedPairs, Interval],
    warnings: list[str],
) -> Path:
    """Write the report of a run whose data set has a ground truth; return the path of its page.

    The variants' scores are those of scores.json; `submitted` are scores, ranked pairs and µAP interval of the submission.

    Raises:
        UserError: when a file of an earlier step cannot be read, or the disk is full.
    """
    scores, ranked, interval = submitted
    return write_report(
        ReportInputs(
            **_describe_run(run, data, warnings),
            variants=variants,
            scores=scores.as_dict(),
            interval=interval,
            ranked=ranked,
            ground_truth=read_ground_truth(data.ground_truth or ""),
        ),
        run.paths.report,
    )


def write_unscored_run_report(
    run: Run, data: IscFolder, pairs: list[tuple[str, str, float]], warnings: list[str]
) -> Path:
    """Write the report of a run whose data set has no ground truth; return the path of its page.

    Query id, reference id and score of pairs that are suggested as copies, best first, stand in place of the scores.

    Raises:
        UserError: when a file of an earlier step cannot be read, or the disk is full.
    """
    return write_unscored_report(
        UnscoredInputs(**_describe_run(run, data, warnings), pairs=pairs), run.paths.report
    )


def _describe_run(run: Run, data: IscFolder, warnings: list[str]) -> dict[str, Any]:
    """Return the fields of RunInputs by name."""
    steps, used = read_steps(run.paths.manifests)
    return {
        "title": run.folder.name,
        "queries": data.query,
        "references": data.reference,
        "edits_file": data.query_edits,
        "recipe": run.paths.recipe.read_text(encoding="utf-8"),
        "code": code_version(),
        "curves": {name: read_curve(run.paths.curve(name)) for name in run.recipe.models},
        "steps": steps,
        "versions": used,
        "warnings": warnings,
        "synthetic": read_synthetic(run.paths.choice),
    }


def read_steps(manifests: Path) -> tuple[list[StepDone], dict[str, str]]:
    """Read the products of the steps before 06 from their manifests, and the versions of each package, joined by "and"."""
    steps, used = [], {name: {number} for name, number in versions().items()}
    known = (
        manifests.iterdir() if manifests.is_dir() else ()
    )  # next to them what a kill left unfinished, its name begins with a dot
    for path in sorted(
        path for path in known if path.suffix == ".json" and not path.name.startswith((".", "06_score"))
    ):
        record = read_json(path)
        steps.append(StepDone(path.stem, record.get("seconds"), str(record.get("code", ""))))
        for name, number in record.get("versions", {}).items():
            used.setdefault(name, set()).add(number)
    return steps, {name: " and ".join(sorted(numbers)) for name, numbers in used.items()}
