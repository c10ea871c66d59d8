"""What a stage is set up from: the images it learns from and their edits, its objective."""

from collections.abc import Callable
from typing import Any

import torch

from image_copies.augmentations.dataset import DOMAINS, EditedImages, normalize_pixels, overlay_material
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages
from image_copies.data.errors import UserError
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.base import Objective
from image_copies.models.objectives.svmax import Svmax
from image_copies.models.training.begin import Training
from image_copies.models.training.curve import read_rows, record_validation
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.modes import LEAST_AGREEMENT, measure_agreement
from image_copies.models.training.stage_end import start_row


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


def build_edited_images(
    edits: AugmentationSettings,
    image_size: int,
    squares: CachedImages,
    others: CachedImages,
    rows: list[int],
    labelled: bool,
    seed: int,
) -> EditedImages:
    """Return the images of a stage with their edits.

    Edits paste the `others`, and those of `squares` that the stage does not learn from, unless classes come from labels.
    """
    material = overlay_material(squares, others, len(squares) if labelled else rows[-1] + 1)
    return EditedImages(squares, edits, image_size, seed, material)


def build_objective(settings: ModelSettings, descriptor: Descriptor, classes: int, seed: int) -> Objective:
    """Build the recipe's objective with the terms added to it; s of SVMax is logged with every one."""
    dimensions = descriptor.dimensions // (len(DOMAINS) if settings.descriptor.domains else 1)
    return Svmax(settings.objective.build(dimensions, classes, seed), settings.svmax)


def check_modes(training: Training, squares: CachedImages, rows: list[int], image_size: int) -> None:
    """Warn where the weights that training starts from embed otherwise than they learn."""
    descriptor, device = training.descriptor, training.fabric.device
    clean = EditedImages(squares, AugmentationSettings(family="none"), image_size, training.seed)
    pixels = torch.stack([clean[0, row, 0][0] for row in rows[:64]])
    cosine = measure_agreement(descriptor, normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std))
    if cosine >= LEAST_AGREEMENT:
        return
    trouble = (
        f"the start's vectors while it learns and when it embeds disagree (mean cosine {cosine:.2f}): the statistics of its "
        "batch normalisations are not those of its weights, as where they were folded into the convolutions. Take other "
        "weights, or train with descriptor.frozen_statistics: true."
    )
    training.fabric.print(f"  warning: {trouble}", flush=True)
    started = read_rows(training.folder)
    if started and training.fabric.global_rank == 0:
        record_validation(training.folder, start_row(float(started[0]["validation"]), image_size, trouble))


def report_unreadable(squares: CachedImages, report: Callable[..., Any]) -> None:
    """Report how many training images cannot be read, and the first of them with its reason."""
    if squares.problems:
        image_id, problem = next(iter(squares.problems.items()))
        report(
            f"  {len(squares.problems)} of {len(squares)} training images are left out, the first: {image_id} {problem}",
            flush=True,
        )
