"""What a report shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.ground_truth import GroundTruth
from data.images import ImageSet
from submissions.bootstrap import Interval
from submissions.metrics import RankedPairs


@dataclass(frozen=True)
class ReportInputs:
    """variants: rows of the table (name, submitted and the figures of Scores); scores: the submission's figures."""

    title: str
    variants: list[dict[str, Any]]
    scores: dict[str, float | int]
    interval: Interval
    ranked: RankedPairs
    ground_truth: GroundTruth
    queries: ImageSet
    references: ImageSet
    edits_file: Path | None
    recipe: str
    code: str
