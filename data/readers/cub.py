"""CUB-200-2011: 200 species of birds; in metric learning the first 100 classes are for training, the last 100 for testing."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.labels import label_images
from image_copies.data.readers.expected import TrainTest, read_columns, require_images, require_names

LAYOUT = "CUB_200_2011/images.txt, CUB_200_2011/image_class_labels.txt and CUB_200_2011/images/… (CUB_200_2011.tgz)"
TRAIN_CLASSES = 100


def read_cub(root: Path | str) -> TrainTest:
    """Read the images of CUB_200_2011/, or of the folder that contains it, and split them by class.

    Ids are paths below images/, class names are folder names.

    Raises:
        UserError: files are missing or in another format, listed images do not exist, an image has no class, or a part has no
            classes.
    """
    root = Path(root)
    folder = root if (root / "images.txt").is_file() else root / "CUB_200_2011"
    require_names(root, LAYOUT)
    require_names(folder if folder.is_dir() else root, LAYOUT, "images.txt", "image_class_labels.txt", "images/")
    names = dict(read_columns(folder / "images.txt", 2))
    class_of = dict(read_columns(folder / "image_class_labels.txt", 2))
    odd = [number for number in names.keys() | class_of.keys() if number not in names or not class_of.get(number, "").isdecimal()]
    if odd:
        raise UserError(
            f"{folder}: images.txt and image_class_labels.txt name different images, such as {min(odd)}. Expected {LAYOUT}."
        )
    parts = []
    for training in (True, False):
        chosen = [name for number, name in names.items() if (int(class_of[number]) <= TRAIN_CLASSES) == training]
        if not chosen:
            raise UserError(
                f"{folder} names no class for {'training' if training else 'testing'}; the first {TRAIN_CLASSES} of 200 are for "
                "training. Unpack the archive again."
            )
        images = require_images(folder / "images", chosen, folder / "images.txt")
        parts.append(label_images(images, [name.split("/")[0] for name in chosen]))
    return TrainTest(*parts)
