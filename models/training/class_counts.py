"""Which images are a stage's classes, and stages that ask for more than there are."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from image_copies.data.errors import UserError
from image_copies.models.training.settings import StageSettings


def order_classes(stages: Sequence[StageSettings], own: int, extra: int) -> list[int]:
    """The order of `own` images and `extra` ones after them, of which every stage learns the first: each stage's mixture."""

    def taken() -> Iterator[int]:
        for stage in stages:
            if stage.classes is not None:
                yield from range(min(own, stage.classes - stage.extra_classes))
                yield from range(own, own + min(extra, stage.extra_classes))
        yield from range(own + extra)

    return list(dict.fromkeys(taken()))


def check_class_counts(stages: Sequence[StageSettings], available: int, report: Callable[..., Any]) -> None:
    """Report the stages that ask for more classes than are available, and those that are skipped because of it.

    Raises:
        UserError: There are fewer than two classes.
    """
    if available < 2:
        raise UserError(
            f"the training images have {available} class(es); training needs at least two. Add training images, "
            "of other classes if there is a training_labels.csv."
        )
    short = [(number, stage.classes) for number, stage in enumerate(stages, 1) if (stage.classes or 0) > available]
    if not short:
        return
    asked = ", ".join(f"stage {number} wants {wanted:,} classes" for number, wanted in short)
    repeated = [number for number, _ in short if repeats_stage_before(stages, number - 1, available)]
    left_out = f" {_format_stages(repeated)} would repeat the stage before and is left out." if repeated else ""
    report(
        f"  {asked}, but there are {available:,}: it learns those.{left_out} Add images (extra_classes) or lower the stages' "
        "classes in the recipe.",
        flush=True,
    )


def repeats_stage_before(stages: Sequence[StageSettings], index: int, available: int) -> bool:
    """Whether a stage, numbered from 0, differs from the previous one only by additional classes, none of which are available.

    A stage that the recipe itself repeats with the same number of classes is intended and does not count.
    """
    if index == 0:
        return False
    before, now = stages[index - 1], stages[index]
    grows = (before.classes or available) < min(now.classes or available, available)
    same_classes = {"classes": before.classes, "extra_classes": before.extra_classes}
    return before.classes != now.classes and not grows and before == now.model_copy(update=same_classes)


def _format_stages(stages: list[int]) -> str:
    """Format stage numbers, such as "each of the stages 6, 7"."""
    return f"stage {stages[0]}" if len(stages) == 1 else f"each of the stages {', '.join(map(str, stages))}"
