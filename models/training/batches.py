"""What a stage learns from: its classes and the batches of their images."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from lightning_fabric import Fabric

from image_copies.augmentations.dataset import MAX_REPETITIONS_PER_PASS, Key
from image_copies.augmentations.sampling import Batches, Stream, epoch_batches
from image_copies.data.cache import CachedImages
from image_copies.data.errors import UserError
from image_copies.data.kinds import PARTS, load_kind

from . import capture, model_settings, state
from .settings import StageSettings


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


def _fix_length(passes: Batches, iterations: int) -> Batches:
    """Return epochs of `iterations` batches each, from as many passes over the images as that takes.

    Each pass has its own order, and the last of an epoch may be cut off. An image that is drawn again in a later pass of the same
    epoch gets its own repetition number, and therefore other edits.
    """
    needed = math.ceil(iterations / passes.per_epoch)

    def draw(epoch: int) -> Iterator[list[Key]]:
        batches = chain.from_iterable(map(passes.draw, range(epoch * needed, (epoch + 1) * needed)))
        for number, keys in enumerate(islice(batches, iterations)):
            again = number // passes.per_epoch * MAX_REPETITIONS_PER_PASS
            yield [(epoch, row, repetition + again) for _, row, repetition in keys]

    return Batches(iterations, passes.epochs, draw)


def build_batches(
    settings: model_settings.ModelSettings,
    stage: StageSettings,
    rows: Sequence[int],
    class_of: Sequence[int],
    progress: state.Progress,
    seed: int,
    fabric: Fabric,
) -> Batches:
    """Build the batches that remain of a stage, of the images `rows`, whose classes are found by row.

    Raises:
        UserError: A batch is too small for the number of processes.
    """
    sampling, size = settings.sampling, stage.batch_size
    stream = Stream(range(progress.epoch, stage.epochs), seed, fabric.global_rank, fabric.world_size)
    if sampling.kind == "epoch":
        whole = settings.compile or capture.suits_graph(settings, fabric.device)
        batches = epoch_batches(rows, size, stream, whole=whole)
    else:
        labels = [class_of[row] for row in rows]
        batches = load_kind(PARTS, sampling.kind)(sampling, rows, labels, size, stream)
    fixed = settings.iterations_of(stage)
    return replace(batches if fixed is None else _fix_length(batches, fixed), done=progress.batch)
