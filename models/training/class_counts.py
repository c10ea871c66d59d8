"""Which images are a stage's classes, and stages that ask for more than there are."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from image_copies.data.cache import CachedImages
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
    """Report the stages that ask for more classes than are available.

    Raises:
        UserError: There are fewer than two classes.
    """
    if available < 2:
        raise UserError(
            f"the training images have {available} class(es); training needs at least two. Add training images, "
            "of other classes if there is a training_labels.csv."
        )
    wanted = [(number, stage.classes or 0) for number, stage in enumerate(stages, 1)]
    asked = ", ".join(
        f"stage {number} wants {classes:,} classes" for number, classes in wanted if classes > available
    )
    if asked:
        remedy = "Add images (extra_classes) or lower the stages' classes in the recipe."
        report(f"  {asked}, but there are {available:,}: it learns those. {remedy}", flush=True)


def choose_rows(classes: int | None, squares: CachedImages, class_of: list[int]) -> list[int]:
    """Return the rows of the images that a stage learns from: those of its first `classes`, None for all, that can be read.

    Raises:
        UserError: They are of fewer than two classes.
    """
    count = classes or len(squares)
    rows = [row for row in squares.readable_rows() if class_of[row] < count]
    if len({class_of[row] for row in rows}) < 2:
        raise UserError(
            f"the stage's {min(count, 1 + max(class_of))} classes have {len(rows)} training images that can be read; "
            "training needs two classes at least."
        )
    return rows
