"""The roles of the training images in a run (docs/house.md, "Roles of the training images")."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import TRAINING, TRAINING_LABELS, IscFolder, open_isc_folder
from image_copies.data.split import split_training
from image_copies.pipeline.run.run import Run


@dataclass(frozen=True)
class TrainingRoles:
    """The training images by role: disjoint, unless the recipe trains on all of them (`split.learn_all`)."""

    classes: ImageSet  # trained on, in fixed order, extra classes last
    own: int  # how many of them are no extra classes
    labels: NDArray[np.int64] | None  # [n] of 0 … C − 1; None where every image is its own class
    overlays: ImageSet  # are pasted into others
    references: ImageSet  # the copies among the synthetic queries are made from and searched in these
    distractors: ImageSet  # the other synthetic queries are made from these


def assign_training_roles(run: Run) -> TrainingRoles:
    """Assign the run's training images to roles; extra classes come last, so that the other classes keep their index.

    Raises:
        UserError: when a folder holds no image, two images have the same id, or labels and extra classes are both given.
    """
    training = run.training_images
    recipe = run.recipe
    split = split_training(training.ids, recipe.seed, recipe.split.validation, recipe.split.overlay)
    extra = [find_images(folder, naming="path") for folder in run.recipe.extra_classes.folders]
    others = split.overlays + split.references + split.distractors
    learnt = split.classes + (others if recipe.split.learn_all else [])
    return TrainingRoles(
        classes=_join_sets(training.select(learnt), extra),
        own=len(learnt),
        labels=_read_labels(run, learnt, extra),
        overlays=training.select(split.overlays),
        references=training.select(split.references),
        distractors=training.select(split.distractors),
    )


def digest_labels(labels: NDArray[np.int64] | None) -> str | None:
    """Return the SHA-256 of the class labels, int64 [n], in hexadecimal, to detect changes; None where there are none."""
    return None if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()


def find_images_to_embed(run: Run) -> dict[str, ImageSet]:
    """Find the images of each of the SETS: training, reference, query and synthetic (the queries of step 00).

    Raises:
        UserError: when a folder is missing or holds no image.
    """
    folder: IscFolder = open_isc_folder(run.data)
    return {
        "training": run.without_excluded(folder.training),
        "reference": folder.reference,
        "query": folder.query,
        "synthetic": find_images(run.paths.query_images),
    }


def _read_labels(run: Run, classes: list[str], extra: list[ImageSet]) -> NDArray[np.int64] | None:
    """Read the class of each trained image, 0 … C − 1, from the data set's training_labels.csv; None where there is none."""
    path = run.data / TRAINING_LABELS
    if not path.is_file():
        return None
    if extra:
        raise UserError(
            f"{path} labels the training images, but extra_classes have no labels: remove extra_classes from the recipe."
        )
    # imported here: an up-to-date step must return at once
    from image_copies.data.labels import read_labels

    labelled = read_labels(path, find_images(run.data / TRAINING))  # those that the recipe excludes have labels, too
    label_of = dict(zip(labelled.images.ids, labelled.labels.tolist(), strict=True))
    return np.unique([label_of[image_id] for image_id in classes], return_inverse=True)[1].astype(np.int64)


def _join_sets(first: ImageSet, others: list[ImageSet]) -> ImageSet:
    ids, paths = list(first.ids), list(first.paths)
    for images in others:
        ids += images.ids
        paths += images.paths
    if len(set(ids)) != len(ids):
        double = next(image_id for image_id, count in Counter(ids).items() if count > 1)
        raise UserError(f"the image id {double!r} occurs in two folders of training classes. Rename one of the files.")
    return ImageSet(ids, paths)
