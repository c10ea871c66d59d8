"""What a report shows: of every run, and of one with or without a ground truth."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.submissions.scoring.bootstrap import Interval
from image_copies.submissions.scoring.metrics import RankedPairs
from image_copies.submissions.scoring.query_scores import QueryScores


@dataclass(frozen=True)
class Distribution:
    """Scores of the queries before or after normalisation.

    Attributes:
        title: Title of the chart, such as "before normalisation".
        scores: Scores of the queries.
        threshold: Score at 90 % precision; None where precision never reaches 90 %.
    """

    title: str
    scores: QueryScores
    threshold: float | None


@dataclass(frozen=True)
class StepDone:
    """One product of a step, as its manifest records it.

    Attributes:
        step: Name of the step or product.
        seconds: Duration in seconds; None where it is not recorded.
        code: Version of the code that made it.
    """

    step: str
    seconds: float | None
    code: str


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What every report of a run shows.

    Attributes:
        title: Title of the page.
        queries: Query images.
        references: Reference images.
        edits_file: CSV of the edits that made each query; None where they are not known.
        recipe: Text of the recipe.
        code: Version of the code that writes the report.
        curves: Learning curve of each model by name, a row per epoch.
        steps: What the run did, in order.
        versions: Version of each relevant package by name.
        notices: Sentences that limit how the scores can be repeated.
        warnings: What is wrong with the run, and what to try.
        synthetic: Rows of the table of the synthetic queries: kind, name and the columns of synthetic_columns.py: of all queries
            and, where families of edits were left out of training, of both halves and of each of these families alone.
    """

    title: str
    queries: ImageSet
    references: ImageSet
    edits_file: Path | None
    recipe: str
    code: str
    curves: dict[str, pd.DataFrame] = field(default_factory=dict)
    steps: list[StepDone] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    synthetic: list[dict[Hashable, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ReportInputs(RunInputs):
    """What the report of a scored run shows.

    Attributes:
        variants: Rows of the table, with the keys name, submitted, the fields of Scores and, optionally,
            micro_average_precision_95.
        scores: The submission's scores, by the names of the fields of Scores.
        interval: 95 % interval of the submission's µAP.
        ranked: The submission's ranked pairs.
        ground_truth: The true copies.
        distributions: Score distributions; the last is the submission's.
    """

    variants: list[dict[str, Any]]
    scores: dict[str, float | int]
    interval: Interval
    ranked: RankedPairs
    ground_truth: GroundTruth
    distributions: list[Distribution] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class UnscoredInputs(RunInputs):
    """What the report of a run without a ground truth shows.

    Attributes:
        pairs: Query id, reference id and score of the pairs that are most likely copies, best first.
    """

    pairs: list[tuple[str, str, float]]
