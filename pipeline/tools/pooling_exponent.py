"""The choice of p*, GeM's exponent at test time, by search on IN-aug or by SGD (MultiGrain, ICLR section 3.5, appendix G)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from image_copies.augmentations.in_aug import InAugImages, choose_in_aug, sample_readable
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import LabelledImages, label_images, read_labels
from image_copies.data.layout import TRAINING, TRAINING_LABELS
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.data.process import choose_workers
from image_copies.models.device import best_device
from image_copies.models.inference.pooling_exponent import (
    LearningSettings,
    LearntExponent,
    embed_at_exponents,
    learn_exponent,
)
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.classifier import load_classifier
from image_copies.pipeline.run.run import assign_training_roles, require_no_tests, run_of_checkpoint
from image_copies.submissions.scoring.retrieval import in_aug_accuracy

SEARCH_IMAGES, SGD_IMAGES = 2_000, 50_000  # numbers of training images, as in the paper


@dataclass(frozen=True)
class ExponentSearch:
    """How p* is chosen."""

    method: Literal["search", "sgd"] = "search"  # the best candidate in IN-aug accuracy, or p trained alone
    exponents: tuple[float, ...] = tuple(float(p) for p in range(1, 11))  # candidates, with "search"
    images: int | None = None  # None for SEARCH_IMAGES or SGD_IMAGES
    learning_rate: float = 0.005  # with "sgd"
    seed: int = 0  # of the choice of images and of their edits
    workers: int | None = None  # None for one per core


def choose_exponent(
    checkpoint_file: Path, how: ExponentSearch, data: Path | None = None, sizes: Sequence[int] | None = None
) -> None:
    """Print the measurements at each size, p*, and the recipe entry that embeds with it.

    Training images are a folder in the ISC2021 layout, of class folders or of images, by default those of the checkpoint's run;
    sizes are in pixels, by default the training size.

    Raises:
        UserError: when the checkpoint or the images cannot be read, an image is a query or reference of the checkpoint's run,
            or "sgd" finds no classifier for the images' classes.
    """
    checkpoint = load_descriptor(checkpoint_file)
    descriptor = require_trained_network(checkpoint, checkpoint_file).to(best_device()).eval()
    training = _training_images(checkpoint_file, data)
    _refuse_tests(checkpoint_file, training.images if isinstance(training, LabelledImages) else training)
    sizes = list(dict.fromkeys(sizes or [checkpoint.image_size]))
    trained = (
        f"trained at {checkpoint.image_size} px with p {float(descriptor.pooling.exponent.detach()):.2f}"
    )
    print(f"{checkpoint_file}: {trained}")
    if how.method == "search":
        chosen = _search(how, descriptor, training, sizes)
    else:
        chosen = _learn(checkpoint_file, how, descriptor, training, sizes, given=data is not None)
    for size, exponent in chosen.items():
        print(
            f"{size} px: p* {exponent:.4g}; in the recipe: embedding: {{image_size: {size}, pooling_exponent: {exponent:.4g}}}"
        )


def _refuse_tests(checkpoint: Path, images: ImageSet) -> None:
    """Check that p* is not fitted on queries or references of the checkpoint's run, where it has one whose data are there."""
    try:
        run = run_of_checkpoint(checkpoint)
    except UserError:  # its data set was moved
        return
    if run is not None:
        require_no_tests(run, images, "p*")


def _search(
    how: ExponentSearch, descriptor: Descriptor, training: ImageSet | LabelledImages, sizes: list[int]
) -> dict[int, float]:
    """Return the best candidate at each size, the smallest among equals."""
    copies = choose_in_aug(training, how.seed, how.images or SEARCH_IMAGES)
    exponents = sorted(set(how.exponents))
    scores: dict[int, dict[float, float]] = {}
    for size in sizes:
        found = embed_at_exponents(
            descriptor, InAugImages(copies, size), exponents, workers=choose_workers(how.workers)
        )
        scores[size] = {
            exponent: in_aug_accuracy(vectors, copies.groups) for exponent, vectors in found.items()
        }
    best = {size: max(of_size, key=lambda exponent: of_size[exponent]) for size, of_size in scores.items()}
    print(
        f"IN-aug accuracy (1 to 5): {copies.copies} edited copies of each of {len(copies.sources)} training images"
    )
    table = Table()
    table.add_column("p", justify="right")
    for size in sizes:
        table.add_column(f"{size} px", justify="right")
    for exponent in exponents:
        table.add_row(
            f"{exponent:g}",
            *(f"{scores[size][exponent]:.4f}{' *' if exponent == best[size] else '  '}" for size in sizes),
        )
    Console(width=110).print(table)
    return best


def _learn(
    checkpoint: Path,
    how: ExponentSearch,
    descriptor: Descriptor,
    training: ImageSet | LabelledImages,
    sizes: list[int],
    given: bool,
) -> dict[int, float]:
    """Train p in one pass at each size, each time from its trained value.

    If `given` (the images come from --data), they must have as many classes as the classifier.
    """
    try:
        classifier = load_classifier(checkpoint)
    except UserError as error:
        raise UserError(f"--method sgd needs a classifier, but {error} Use --method search.") from error
    classes = len(classifier[0])
    if not isinstance(training, LabelledImages) or (given and len(training.names) != classes):
        found = (
            f"{len(training.names)} classes"
            if isinstance(training, LabelledImages)
            else f"no {TRAINING_LABELS} or class folders"
        )
        raise UserError(
            f"the classifier of {checkpoint} has {classes} classes, but the training images have {found}. Give the data set "
            "that it was trained on with --data DIR."
        )
    rows = [
        row
        for row in sample_readable(training, how.seed, how.images or SGD_IMAGES)
        if training.labels[row] < classes
    ]
    images = ImageSet(
        [training.images.ids[row] for row in rows], [training.images.paths[row] for row in rows]
    )
    labels, settings = training.labels[rows], LearningSettings(learning_rate=how.learning_rate)
    learnt: dict[int, LearntExponent] = {}
    for size in sizes:
        squares, workers = PreprocessedImages(images, size), choose_workers(how.workers)
        learnt[size] = learn_exponent(
            descriptor, classifier, squares, labels, settings, seed=how.seed, workers=workers
        )
    print(f"SGD on p alone: one pass over {len(rows)} training images of {classes} classes")
    table = Table()
    for heading in ("size", "p*", "cross entropy at the trained p", "at p as it moved"):
        table.add_column(heading, justify="right")
    for size, result in learnt.items():
        table.add_row(f"{size} px", f"{result.value:.3f}", f"{result.loss_before:.4f}", f"{result.loss:.4f}")
    Console(width=110).print(table)
    return {size: result.value for size, result in learnt.items()}


def _training_images(checkpoint: Path, root: Path | None) -> ImageSet | LabelledImages:
    """Return the images below `root`, or the training images of the checkpoint's run, each its own class if it has no labels."""
    if root is None:
        run = run_of_checkpoint(checkpoint)
        if run is None:
            raise UserError(f"{checkpoint} is not part of a run; give the training images with --data DIR.")
        roles = assign_training_roles(run)
        labels = np.arange(len(roles.classes)) if roles.labels is None else roles.labels
        return LabelledImages(roles.classes, labels, [str(label) for label in np.unique(labels)])
    if (root / TRAINING).is_dir():
        images = find_images(root / TRAINING)
        return read_labels(root / TRAINING_LABELS, images) if (root / TRAINING_LABELS).is_file() else images
    images = find_images(root, naming="path")
    in_folders = all("/" in image_id for image_id in images.ids)
    return (
        label_images(images, [image_id.split("/", 1)[0] for image_id in images.ids]) if in_folders else images
    )
