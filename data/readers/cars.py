"""Cars-196: car models; in metric learning the first 98 classes are for training, the last 98 for testing."""

from pathlib import Path

import numpy as np
from scipy.io import loadmat

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages
from image_copies.data.readers.expected import TrainTest, require_images, require_names

LAYOUT = "cars_annos.mat and car_ims/000001.jpg, … (cars_annos.mat and car_ims.tgz side by side)"
TRAIN_CLASSES = 98


def read_cars(root: Path | str) -> TrainTest:
    """Read the images of cars_annos.mat and split them by class; the file's own train/test split is not used.

    Raises:
        UserError: files are missing or in another format, listed images do not exist, or a part has no classes.
    """
    root = Path(root)
    require_names(root, LAYOUT, "cars_annos.mat", "car_ims/")
    file = root / "cars_annos.mat"
    try:
        content = loadmat(file, squeeze_me=True)
        rows = np.atleast_1d(content["annotations"])
        names = [str(name) for name in np.atleast_1d(rows["relative_im_path"])]
        classes = np.array([int(label) for label in rows["class"]], np.int64)
        titles = [str(title) for title in np.atleast_1d(content["class_names"])]
    except Exception as error:  # damaged files raise all kinds of errors
        raise UserError(f"{file} is not Cars-196's table of annotations: {error}") from error
    if len(classes) == 0 or classes.min() < 1 or classes.max() > len(titles):
        raise UserError(f"{file}: a class lies outside 1…{len(titles)}, the number of class_names. Unpack the archive again.")
    images = require_images(root, names, file)
    train, test = (_part(images, classes, titles, chosen, file) for chosen in (classes <= TRAIN_CLASSES, classes > TRAIN_CLASSES))
    return TrainTest(train, test)


def _part(images: ImageSet, classes: np.ndarray, titles: list[str], chosen: np.ndarray, file: Path) -> LabelledImages:
    if not chosen.any():
        raise UserError(
            f"{file}: its {len(titles)} classes leave none for training or none for testing; the first {TRAIN_CLASSES} of 196 "
            "are for training. Unpack the archive again."
        )
    rows = np.flatnonzero(chosen).tolist()
    numbers, labels = np.unique(classes[rows], return_inverse=True)
    part = ImageSet([images.ids[row] for row in rows], [images.paths[row] for row in rows])
    return LabelledImages(part, labels.astype(np.int64), [titles[number - 1] for number in numbers.tolist()])
