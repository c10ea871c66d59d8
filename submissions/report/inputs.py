"""What the pages of the report are made of: their inputs, their templates, the folder that they are written into."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet

from ..scoring.metrics import Interval, RankedPairs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StepDone:
    """One product of a step, as its manifest records it."""

    step: str  # or product
    seconds: float | None  # None where the duration is not recorded
    code: str  # version that made it


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What every report of a run shows."""

    title: str
    queries: ImageSet
    references: ImageSet
    edits_file: Path | None  # None where the edits are not known
    recipe: str
    code: str  # version that writes the report
    curves: dict[str, "pd.DataFrame"] = field(default_factory=dict)  # by model, a row per epoch
    steps: list[StepDone] = field(default_factory=list)  # in order
    versions: dict[str, str] = field(default_factory=dict)  # of packages
    warnings: list[str] = field(default_factory=list)  # what is wrong with the run, and what to try
    # µAP of the chosen variant on the synthetic queries, by title
    synthetic: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReportInputs(RunInputs):
    """What the report of a scored run shows."""

    # name, submitted, the fields of Scores and perhaps micro_average_precision_95
    variants: list[dict[str, Any]]
    scores: dict[str, float | int]  # of the submission, by the names of the fields of Scores
    interval: Interval  # of the submission's µAP
    ranked: RankedPairs
    ground_truth: GroundTruth


@dataclass(frozen=True, kw_only=True)
class UnscoredInputs(RunInputs):
    """What the report of a run without a ground truth shows."""

    # query id, reference id and score of the likeliest copies, best first
    pairs: list[tuple[str, str, float]]


TEMPLATES = Path(__file__).parent / "templates"


def format_number(value: float, form: str = ".3f") -> str:
    """Format a number with a true minus sign, as the charts do; a line does not break after it."""
    return format(value, form).replace("-", "−")


def render(template: str | Path, **values: object) -> str:
    """Render a template of this package, or one elsewhere that may build on those, with the given values; none may be missing."""
    path = TEMPLATES / template
    return _open_templates(path.parent).get_template(path.name).render(**values)


@cache
def _open_templates(folder: Path) -> Environment:
    """Return what compiles the templates of a folder, each of them once."""
    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["number"] = format_number
    return environment


MARK = '<meta name="generator" content="image-copy-detection">'  # in the head of every page


def check_output_folder(folder: Path, option: str) -> None:
    """Check that a page may be written to the folder that this option named: it is missing, empty or holds an older page.

    Raises:
        UserError: when the folder holds anything else, or is a file.
    """
    if not folder.exists():
        return
    if folder.is_dir() and (not any(folder.iterdir()) or _is_page(folder / "index.html")):
        return
    raise UserError(
        f"{folder} exists and is neither empty nor a page of this project: it is left alone. Choose another {option}."
    )


def _is_page(path: Path) -> bool:
    return path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")
