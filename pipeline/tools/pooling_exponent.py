"""choose_exponent.py's work: the training images, p* at each size, and what to write into the recipe."""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from augmentations.in_aug import InAugImages, in_aug, readable_sample
from data.errors import UserError
from data.images import ImageSet, find_images
from data.labels import LabelledImages, read_labels, with_classes
from data.layout import TRAINING, TRAINING_LABELS
from data.loader import CleanImages
from models.inference.pooling_exponent import LearningSettings, LearntExponent, learn_exponent, vectors_by_exponent
from models.network.checkpoint import load_descriptor
from models.network.descriptor import Descriptor
from models.network.device import best_device
from models.training.finishing import load_classifier
from pipeline.run.stage import open_run
from pipeline.run.training_roles import training_roles
from submissions.scoring.retrieval import in_aug_accuracy

SEARCH_IMAGES, SGD_IMAGES = 2_000, 50_000  # the paper's


def choose_exponent(options: argparse.Namespace) -> None:
    """Print what was measured at each size, p*, and how to embed with it."""
    checkpoint = load_descriptor(options.checkpoint)
    descriptor = checkpoint.descriptor.to(best_device()).eval()
    training = _training_images(options)
    sizes = list(dict.fromkeys(options.sizes or [checkpoint.image_size]))
    trained = f"trained at {checkpoint.image_size} px with p {float(descriptor.pooling.exponent.detach()):.2f}"
    print(f"{options.checkpoint}: {trained}")
    chosen = (_searched if options.method == "search" else _learnt)(options, descriptor, training, sizes)
    for size, exponent in chosen.items():
        print(f"{size} px: p* {exponent:.4g}; in the recipe: embedding: {{image_size: {size}, pooling_exponent: {exponent:.4g}}}")


def _searched(
    options: argparse.Namespace, descriptor: Descriptor, training: ImageSet | LabelledImages, sizes: list[int]
) -> dict[int, float]:
    """The best candidate at each size; the smallest of equal ones."""
    copies = in_aug(training, options.seed, options.images or SEARCH_IMAGES)
    exponents = sorted(set(options.exponents))
    scores: dict[int, dict[float, float]] = {}
    for size in sizes:
        found = vectors_by_exponent(descriptor, InAugImages(copies, size), exponents, workers=options.workers)
        scores[size] = {exponent: in_aug_accuracy(vectors, copies.groups) for exponent, vectors in found.items()}
    best = {size: max(of_size, key=lambda exponent: of_size[exponent]) for size, of_size in scores.items()}
    print(f"IN-aug accuracy (1 to 5): {copies.copies} edited copies of each of {len(copies.sources)} training images")
    table = Table()
    table.add_column("p", justify="right")
    for size in sizes:
        table.add_column(f"{size} px", justify="right")
    for exponent in exponents:
        table.add_row(
            f"{exponent:g}", *(f"{scores[size][exponent]:.4f}{' *' if exponent == best[size] else '  '}" for size in sizes)
        )
    Console(width=110).print(table)
    return best


def _learnt(
    options: argparse.Namespace, descriptor: Descriptor, training: ImageSet | LabelledImages, sizes: list[int]
) -> dict[int, float]:
    """p after one pass at each size, each time from the trained one."""
    try:
        classifier = load_classifier(options.checkpoint)
    except UserError as error:
        raise UserError(f"--method sgd learns p by the classifier, but {error} Use --method search.") from error
    classes = len(classifier[0])
    if not isinstance(training, LabelledImages) or (options.data is not None and len(training.names) != classes):
        found = (
            f"{len(training.names)} classes" if isinstance(training, LabelledImages) else f"no {TRAINING_LABELS} or class folders"
        )
        raise UserError(
            f"{options.data}: the classifier tells {classes} classes apart; found {found}. Name the training set that it learnt."
        )
    rows = [
        row for row in readable_sample(training, options.seed, options.images or SGD_IMAGES) if training.labels[row] < classes
    ]
    images = ImageSet([training.images.ids[row] for row in rows], [training.images.paths[row] for row in rows])
    labels, settings = training.labels[rows], LearningSettings(learning_rate=options.learning_rate)
    learnt: dict[int, LearntExponent] = {}
    for size in sizes:
        squares = CleanImages(images, size)
        learnt[size] = learn_exponent(descriptor, classifier, squares, labels, settings, options.seed, options.workers)
    print(f"SGD on p alone: one pass over {len(rows)} training images of {classes} classes")
    table = Table()
    for heading in ("size", "p*", "cross entropy at the trained p", "at p as it moved"):
        table.add_column(heading, justify="right")
    for size, result in learnt.items():
        table.add_row(f"{size} px", f"{result.value:.3f}", f"{result.loss_before:.4f}", f"{result.loss:.4f}")
    Console(width=110).print(table)
    return {size: result.value for size, result in learnt.items()}


def _training_images(options: argparse.Namespace) -> ImageSet | LabelledImages:
    """Of --data, or those that the checkpoint's own run learnt from, each its own class where it has no classes."""
    root: Path | None = options.data
    if root is None:
        folder = options.checkpoint.resolve().parent.parent.parent
        if not (folder / "run.json").is_file():
            raise UserError(f"{options.checkpoint} lies in no run; name the training images with --data DIR.")
        roles = training_roles(open_run(argparse.Namespace(run=folder, recipe=None, data=None)))
        labels = np.arange(len(roles.classes)) if roles.labels is None else roles.labels
        return LabelledImages(roles.classes, labels, [str(label) for label in np.unique(labels)])
    if (root / TRAINING).is_dir():
        images = find_images(root / TRAINING)
        return read_labels(root / TRAINING_LABELS, images) if (root / TRAINING_LABELS).is_file() else images
    images = find_images(root, naming="path")
    in_folders = all("/" in image_id for image_id in images.ids)
    return with_classes(images, [image_id.split("/", 1)[0] for image_id in images.ids]) if in_folders else images
