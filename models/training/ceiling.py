"""Stages in which the clock decided: another machine, or the same one when it is busier, learns something else. Free of torch."""

import csv
from collections.abc import Sequence
from pathlib import Path

from image_copies.models.training.settings import StageSettings

CEILING = "minutes"  # what the curve's column ended_by says of a stage that took too long


def clock_notice(stage: StageSettings, number: int, epochs: int, ended_by: str) -> str:
    """What the clock decided in a stage (from 1), as a sentence; empty where its end and its rates are those of its epochs."""
    if stage.minutes is None:
        return ""
    if ended_by == CEILING:
        return (
            f"stage {number} was ended by its ceiling of {stage.minutes:g} minutes after {epochs} of {stage.epochs} epochs; "
            "on a faster machine the result differs"
        )
    if stage.last_learning_rate_factor is not None:
        return (
            f"the learning rate of stage {number} followed its {stage.minutes:g} minutes as well as its epochs; "
            "on a faster machine the result differs"
        )
    return ""


def clock_notices(curve: Path, stages: Sequence[StageSettings]) -> list[str]:
    """The notices of a finished training, from the file of its curve; none where there is no curve."""
    if not curve.is_file():
        return []
    with curve.open(newline="", encoding="utf-8") as file:
        ends = [row for row in csv.DictReader(file) if row.get("ended_by")]
    numbers = [(int(row["stage"]), int(row["epoch"]), row["ended_by"]) for row in ends]
    found = [clock_notice(stages[stage - 1], stage, epoch, by) for stage, epoch, by in numbers if 0 < stage <= len(stages)]
    return [notice for notice in found if notice]
