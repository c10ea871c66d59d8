"""What a report shows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from data.ground_truth import GroundTruth
from data.images import ImageSet
from submissions.scoring.bootstrap import Interval
from submissions.scoring.metrics import RankedPairs
from submissions.scoring.query_scores import QueryScores


@dataclass(frozen=True)
class Distribution:
    """Scores of one state of the queries.

    Attributes:
        title: the state, such as "before normalisation".
        scores: of the queries in it.
        threshold: the score at 90 % precision; None where precision never is as high.
    """

    title: str
    scores: QueryScores
    threshold: float | None


@dataclass(frozen=True)
class StepDone:
    """One line of the run's manifests.

    Attributes:
        step: its name.
        seconds: that it took; None where it is not recorded.
        code: version of the code.
    """

    step: str
    seconds: float | None
    code: str


@dataclass(frozen=True)
class ReportInputs:
    """What a report shows.

    Attributes:
        title: of the page.
        variants: rows of the table: name, submitted, the figures of Scores and, optionally, micro_average_precision_95.
        scores: the submission's figures.
        interval: of the submission's µAP.
        ranked: the submission's pairs.
        ground_truth: the true copies.
        queries: images.
        references: images.
        edits_file: CSV of the edits that made each query; None where it is not known.
        recipe: its text.
        code: version of the code.
        distributions: of scores; the last is the submission's.
        curves: each model's learning curve, a row per epoch.
        steps: what the run did.
        versions: of each package that took part.
    """

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
    distributions: list[Distribution] = field(default_factory=list)
    curves: dict[str, pd.DataFrame] = field(default_factory=dict)
    steps: list[StepDone] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
