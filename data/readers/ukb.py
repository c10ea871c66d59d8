"""University of Kentucky benchmark: four photos of each of 2,550 objects."""

from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.data.labels import LabelledImages
from image_copies.data.readers.expected import require_names

LAYOUT = "full/ukbench00000.jpg, full/ukbench00001.jpg, … in fours (ukbench.zip), or the same images without full/"


def read_ukb(root: Path | str) -> LabelledImages:
    """Read the images of full/, or of `root` itself, in the order of their numbers; labels are the objects, number // 4.

    Every image is a query for `submissions.scoring.retrieval.ukb_score`.

    Raises:
        UserError: there are no images, images have other names, or an object does not have exactly four images.
    """
    root = Path(root)
    require_names(root, LAYOUT)
    folder = root / "full" if (root / "full").is_dir() else root
    images = find_images(folder, naming="path")
    numbers = [image_id.removeprefix("ukbench") for image_id in images.ids]
    wrong = [image_id for image_id, number in zip(images.ids, numbers, strict=True) if len(number) != 5 or not number.isdecimal()]
    if wrong:
        raise UserError(f"{folder} holds {len(wrong)} images with other names, such as {wrong[0]!r}; expected {LAYOUT}.")
    objects, labels, sizes = np.unique([int(number) // 4 for number in numbers], return_inverse=True, return_counts=True)
    if (sizes != 4).any():
        first = int(objects[sizes != 4][0])
        raise UserError(
            f"{folder}: {int((sizes != 4).sum())} objects do not have four images; the first should have "
            f"ukbench{4 * first:05d} to ukbench{4 * first + 3:05d}. Is the archive unpacked completely? Expected {LAYOUT}."
        )
    return LabelledImages(images, labels.astype(np.int64), [f"{number:05d}" for number in objects.tolist()])
