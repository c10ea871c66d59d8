"""Images with a class each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.images import ImageSet, find_images
from data.layout import TRAINING_LABELS, IscFolder
from data.tables import read_table

COLUMNS = ["image_id", "label"]


@dataclass(frozen=True)
class LabelledImages:
    """Images with classes.

    Attributes:
        images: the images.
        labels: int64 [n], the class of each image in 0…C−1; every class is used.
        names: [C], what the classes are called.
    """

    images: ImageSet
    labels: NDArray[np.int64]
    names: list[str]

    def __len__(self) -> int:
        return len(self.images)

    def of_classes(self, classes: Sequence[int]) -> "LabelledImages":
        """The images of `classes`, in the same order; the classes are renumbered in the order given.

        Raises:
            UserError: a class is unknown or named twice.
        """
        wrong = [label for label in classes if not 0 <= label < len(self.names)]
        if wrong or len(set(classes)) < len(classes):
            raise UserError(f"classes must be different numbers in 0…{len(self.names) - 1}; got {list(classes)[:10]}.")
        number = np.full(len(self.names), -1, np.int64)
        number[list(classes)] = np.arange(len(classes))
        rows = np.flatnonzero(number[self.labels] >= 0).tolist()
        images = ImageSet([self.images.ids[row] for row in rows], [self.images.paths[row] for row in rows])
        return LabelledImages(images, number[self.labels[rows]], [self.names[label] for label in classes])


def with_classes(images: ImageSet, classes: Sequence[str]) -> LabelledImages:
    """Give each image the class of that name in `classes` [n]; classes are numbered in the order of their sorted names."""
    names, labels = np.unique(np.asarray(classes, dtype=object).astype(str), return_inverse=True)
    return LabelledImages(images, labels.astype(np.int64), names.tolist())


def read_labels(path: Path | str, images: ImageSet) -> LabelledImages:
    """Read a CSV of `image_id,label` with a row for every image; the result has the order of `images`.

    Blanks around ids and labels are ignored.

    Raises:
        UserError: no such file, other columns, an empty label, an id twice, an id without an image, an image without a label.
    """
    path = Path(path)
    table = read_table(path, COLUMNS, f"a CSV with the columns {','.join(COLUMNS)}, one row for each image")
    table = table.apply(lambda column: column.str.strip())  # "cat" and " cat" are one class
    if (table["label"] == "").any():
        raise UserError(f"{path}, line {int((table['label'] == '').to_numpy().argmax()) + 2}: the label is empty.")
    label_of = dict(zip(table["image_id"], table["label"], strict=True))
    if len(label_of) < len(table):
        twice = table["image_id"][table["image_id"].duplicated()].iloc[0]
        raise UserError(f"{path} names the image {twice!r} more than once; keep one row for each image.")
    known = set(images.ids)
    unknown = [image_id for image_id in label_of if image_id not in known]
    if unknown:
        raise UserError(
            f"{path}: {len(unknown)} ids are no image's, the first is {unknown[0]!r}. An id is a file name without ending."
        )
    missing = [image_id for image_id in images.ids if image_id not in label_of]
    if missing:
        raise UserError(f"{path}: {len(missing)} of {len(images)} images have no row, the first is {missing[0]!r}.")
    return with_classes(images, [label_of[image_id] for image_id in images.ids])


def training_labels(folder: IscFolder) -> LabelledImages | None:
    """The classes of the training images of a folder in the ISC2021 layout; None when it has no training_labels.csv."""
    path = folder.root / TRAINING_LABELS
    return read_labels(path, folder.training) if path.is_file() else None


def read_class_folders(root: Path | str) -> LabelledImages:
    """A folder with one folder of images for each class, as ImageNet's train/; ids are "class/file" without the ending.

    Images may lie deeper below a class's folder.

    Raises:
        UserError: no such folder, no image, or images beside the folders.
    """
    root = Path(root)
    images = find_images(root, naming="path")
    loose = [image_id for image_id in images.ids if "/" not in image_id]
    if loose:
        raise UserError(
            f"{root}: {len(loose)} images lie in no class's folder, the first is {loose[0]!r}. Expected one folder for each "
            f"class with its images inside ({root.name}/<class>/<image>.jpg); name that folder, or sort the images into classes."
        )
    return with_classes(images, [image_id.split("/", 1)[0] for image_id in images.ids])
