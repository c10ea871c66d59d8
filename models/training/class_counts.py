"""How many classes each stage of a recipe gets, where it asks for more than there are."""

from collections.abc import Callable, Sequence
from typing import Any

from data.errors import UserError
from models.settings import ModelSettings, StageSettings


def check_class_counts(settings: ModelSettings, available: int, report: Callable[..., Any]) -> None:
    """Report every stage that asks for more classes than there are, and which stages are left out for it.

    Args:
        settings: The model and its stages.
        available: Number of classes that the training images have.
        report: Called with the message, if there is one.

    Raises:
        UserError: There is no second class.
    """
    if available < 2:
        raise UserError(
            f"the training images to learn from are of {available} class(es); training needs two at least. Add training images, "
            "of other classes where training_labels.csv names them."
        )
    short = [(number, stage.classes) for number, stage in enumerate(settings.stages, 1) if (stage.classes or 0) > available]
    if not short:
        return
    asked = ", ".join(f"stage {number} wants {wanted:,} classes" for number, wanted in short)
    repeated = [number for number, _ in short if repeats_stage_before(settings.stages, number - 1, available)]
    left_out = f" {_numbered(repeated)} would repeat the stage before and is left out." if repeated else ""
    report(
        f"  {asked}, but there are {available:,}: it learns those.{left_out} Add images (extra_classes) or lower the stages' "
        "classes in the recipe.",
        flush=True,
    )


def repeats_stage_before(stages: Sequence[StageSettings], index: int, available: int) -> bool:
    """Whether the stage differs from the one before by classes alone, none of which are there to be added.

    A stage that is repeated in the recipe itself, with the same number of classes, is meant so.

    Args:
        stages: Of the recipe.
        index: The stage's, from 0.
        available: Number of classes that the training images have.
    """
    if index == 0:
        return False
    before, now = stages[index - 1], stages[index]
    grows = (before.classes or available) < min(now.classes or available, available)
    return before.classes != now.classes and not grows and before == now.model_copy(update={"classes": before.classes})


def _numbered(stages: list[int]) -> str:
    """Such as "each of the stages 6, 7"."""
    return f"stage {stages[0]}" if len(stages) == 1 else f"each of the stages {', '.join(map(str, stages))}"
