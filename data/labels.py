"""Images with class labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .arrays import Bools, Int64s
from .errors import UserError
from .ground_truth import read_table
from .images import ImageSet, find_images

LABEL_COLUMNS = ["image_id", "label"]


@dataclass(frozen=True)
class LabelledImages:
    """Images with class labels."""

    images: ImageSet
    # int64 [n], the class index of each image in 0…C−1; every class has at least one image
    labels: Int64s
    names: list[str]

    def __len__(self) -> int:
        return len(self.images)

    def part(self, chosen: Bools) -> "LabelledImages":
        """Return the images of a mask [n] in their order, with the classes that they are of."""
        images = self.images.select([self.images.ids[row] for row in np.flatnonzero(chosen)])
        classes, labels = np.unique(self.labels[chosen], return_inverse=True)
        return LabelledImages(
            images, labels.astype(np.int64), [self.names[label] for label in classes.tolist()]
        )


def label_images(images: ImageSet, classes: Sequence[str]) -> LabelledImages:
    """Label images by the names of their classes [n]; class indices follow the sorted names."""
    names, labels = np.unique(np.asarray(classes, dtype=object).astype(str), return_inverse=True)
    return LabelledImages(images, labels.astype(np.int64), names.tolist())


def read_labels(path: Path, images: ImageSet) -> LabelledImages:
    """Read a CSV of `image_id,label` with one row for each image; the result is in the order of `images`.

    Whitespace around ids and labels is ignored.

    Raises:
        UserError: the file is missing or has other columns, a label is empty, an id occurs twice or belongs to no image, or an
            image has no label.
    """
    rows = read_table(
        path, LABEL_COLUMNS, f"a CSV with the columns {','.join(LABEL_COLUMNS)}, one row for each image"
    )
    label_of: dict[str, str] = {}
    for number, row in enumerate(rows, 2):
        image_id, label = (cell.strip() for cell in row)  # "cat" and " cat" are one class
        if not label:
            raise UserError(f"{path}, line {number}: the label is empty. Give it a class.")
        if image_id in label_of:
            raise UserError(
                f"{path} names the image {image_id!r} more than once; keep one row for each image."
            )
        label_of[image_id] = label
    known = set(images.ids)
    unknown = [image_id for image_id in label_of if image_id not in known]
    if unknown:
        raise UserError(
            f"{path}: {len(unknown)} ids belong to no image; the first is {unknown[0]!r}. An id is a file name without extension."
        )
    missing = [image_id for image_id in images.ids if image_id not in label_of]
    if missing:
        raise UserError(
            f"{path}: {len(missing)} of {len(images)} images have no row; the first is {missing[0]!r}. Add a row for each image."
        )
    return label_images(images, [label_of[image_id] for image_id in images.ids])


def read_class_folders(root: Path) -> LabelledImages:
    """Read a folder with one subfolder of images per class, as ImageNet's train/; ids are "class/file" without extension.

    Images may lie deeper inside a class's folder.

    Raises:
        UserError: the folder does not exist or contains no image, or some images are not in a class folder.
    """
    images = find_images(root, naming="path")
    loose = [image_id for image_id in images.ids if "/" not in image_id]
    if loose:
        raise UserError(
            f"{root}: {len(loose)} images are not in a class folder; the first is {loose[0]!r}. Expected one folder per class "
            f"({root.name}/<class>/<image>.jpg): name the folder that contains them, or sort the images into such folders."
        )
    return label_images(images, [image_id.split("/", 1)[0] for image_id in images.ids])
