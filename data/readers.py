"""Public data sets, as unpacked from their archives: how many images each must have, and how they are labelled."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import UserError
from .images import ImageSet, find_images
from .labels import LabelledImages, label_images


@dataclass(frozen=True)
class TrainTest:
    """A labelled data set in two parts; in metric learning their classes are disjoint."""

    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True)
class RetrievalSet:
    """A retrieval benchmark."""

    images: ImageSet
    queries: list[int]  # rows of the queries in `images`, 0…n−1
    relevant: list[list[int]]  # for each query, the rows of its correct answers
    # for each query, the rows removed from its ranking before scoring, such as the query itself
    ignored: list[list[int]]


def require_names(root: Path, form: str, *names: str) -> None:
    """Check that `root` contains all `names`, those of folders ending in a slash; `form` is the expected layout.

    Raises:
        UserError: `root` is not a folder, or something is missing.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Name the root of the unpacked archive: {form}.")
    missing = [
        name
        for name in names
        if not ((root / name).is_dir() if name.endswith("/") else (root / name).is_file())
    ]
    if missing:
        holds = ", ".join(sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:8]) or "nothing"
        raise UserError(
            f"{root} lacks {', '.join(missing)} (it holds {holds}). Name the root of the unpacked archive: {form}."
        )


def read_columns(path: Path, columns: int, header: str = "") -> list[list[str]]:
    """Read a table with so many whitespace-separated columns, below a header unless that is "".

    Raises:
        UserError: the first line is another one, a line has another number of columns, or there are no rows.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        parts = line.split()
        if header and number == 1 and parts != header.split():
            raise UserError(
                f"{path} does not begin with the line {header!r} but with {line[:60]!r}. Unpack the archive again."
            )
        if not parts or (header and number == 1):
            continue
        if len(parts) != columns:
            raise UserError(
                f"{path}, line {number} has {len(parts)} columns; expected {columns}: {line[:60]!r}."
            )
        rows.append(parts)
    if not rows:
        raise UserError(f"{path} contains no rows. Unpack the archive again.")
    return rows


def require_images(root: Path, names: list[str], source: Path) -> ImageSet:
    """Return the images at the paths `names` below `root`, which `source` lists; the names become the ids.

    Raises:
        UserError: some of the files do not exist.
    """
    paths = [root / name for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(
            f"{source} lists {len(names)} images, {len(missing)} of them do not exist; the first is {missing[0]}."
        )
    return ImageSet(names, paths)


CARS_LAYOUT = "cars_annos.mat and car_ims/000001.jpg, … (cars_annos.mat and car_ims.tgz side by side)"
CARS_TRAIN_CLASSES = 98


def read_cars(root: Path | str) -> TrainTest:
    """Read the images of cars_annos.mat and split them by class; the file's own train/test split is not used.

    Raises:
        UserError: files are missing or in another format, listed images do not exist, or a part has no classes.
    """
    from scipy.io import loadmat  # here: other sets need no scipy

    root = Path(root)
    require_names(root, CARS_LAYOUT, "cars_annos.mat", "car_ims/")
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
        raise UserError(
            f"{file}: a class lies outside 1…{len(titles)}, the number of class_names. Unpack the archive again."
        )
    images = require_images(root, names, file)
    train, test = (
        _part_of_cars(images, classes, titles, chosen, file)
        for chosen in (classes <= CARS_TRAIN_CLASSES, classes > CARS_TRAIN_CLASSES)
    )
    return TrainTest(train, test)


def _part_of_cars(
    images: ImageSet, classes: np.ndarray, titles: list[str], chosen: np.ndarray, file: Path
) -> LabelledImages:
    if not chosen.any():
        raise UserError(
            f"{file}: its {len(titles)} classes leave none for training or none for testing; the first {CARS_TRAIN_CLASSES} of "
            "196 are for training. Unpack the archive again."
        )
    rows = np.flatnonzero(chosen).tolist()
    numbers, labels = np.unique(classes[rows], return_inverse=True)
    part = ImageSet([images.ids[row] for row in rows], [images.paths[row] for row in rows])
    return LabelledImages(part, labels.astype(np.int64), [titles[number - 1] for number in numbers.tolist()])


COPYDAYS_LAYOUT = "original/200000.jpg, … and strong/200001.jpg, …"


def read_copydays(root: Path | str, distractors: Path | str | None = None) -> RetrievalSet:
    """Read Copydays with the strong copies as queries, searched for among originals and distractors.

    The answer to a query is the original with the same number // 100. Ids are "original/…", "strong/…", "distractor/…". The
    copies are in `images` because they are embedded; every ranking ignores them.

    Raises:
        UserError: a folder is missing, a file is not named by six digits, or a copy has no original.
    """
    root = Path(root)
    require_names(root, COPYDAYS_LAYOUT, "original/", "strong/")
    parts = [_prefix_ids(kind, root / kind) for kind in ("original", "strong")]
    if distractors is not None:
        parts.append(_prefix_ids("distractor", Path(distractors)))
    images = ImageSet(
        [image_id for part in parts for image_id in part.ids], [path for part in parts for path in part.paths]
    )
    originals: dict[int, list[int]] = defaultdict(list)
    first, end = len(parts[0]), len(parts[0]) + len(parts[1])
    for row in range(first):
        originals[_group(images, row)].append(row)
    queries = list(range(first, end))
    alone = [row for row in queries if _group(images, row) not in originals]
    if alone:
        lonely = images.paths[alone[0]]
        raise UserError(
            f"{root}: {len(alone)} copies have no original; the first is {lonely}. Expected {COPYDAYS_LAYOUT}."
        )
    return RetrievalSet(
        images, queries, [originals[_group(images, row)] for row in queries], [queries] * len(queries)
    )


def _prefix_ids(prefix: str, folder: Path) -> ImageSet:
    found = find_images(folder, naming="path")
    return ImageSet([f"{prefix}/{image_id}" for image_id in found.ids], found.paths)


def _group(images: ImageSet, row: int) -> int:
    """Return the number that a photo shares with its copies."""
    name = images.paths[row].stem
    if len(name) != 6 or not name.isdecimal():
        raise UserError(
            f"{images.paths[row]} is not named by six digits, as Copydays' images are. Expected {COPYDAYS_LAYOUT}."
        )
    return int(name) // 100


CUB_LAYOUT = "CUB_200_2011/images.txt, CUB_200_2011/image_class_labels.txt and CUB_200_2011/images/… (CUB_200_2011.tgz)"
CUB_TRAIN_CLASSES = 100


def read_cub(root: Path | str) -> TrainTest:
    """Read the images of CUB_200_2011/, or of the folder that contains it, and split them by class.

    Ids are paths below images/, class names are folder names.

    Raises:
        UserError: files are missing or in another format, listed images do not exist, an image has no class, or a part has no
            classes.
    """
    root = Path(root)
    folder = root if (root / "images.txt").is_file() else root / "CUB_200_2011"
    require_names(root, CUB_LAYOUT)
    require_names(
        folder if folder.is_dir() else root, CUB_LAYOUT, "images.txt", "image_class_labels.txt", "images/"
    )
    names = dict(read_columns(folder / "images.txt", 2))
    class_of = dict(read_columns(folder / "image_class_labels.txt", 2))
    odd = [
        number
        for number in names.keys() | class_of.keys()
        if number not in names or not class_of.get(number, "").isdecimal()
    ]
    if odd:
        raise UserError(
            f"{folder}: images.txt and image_class_labels.txt name different images, such as {min(odd)}. Expected {CUB_LAYOUT}."
        )
    parts = []
    for training in (True, False):
        chosen = [
            name for number, name in names.items() if (int(class_of[number]) <= CUB_TRAIN_CLASSES) == training
        ]
        if not chosen:
            raise UserError(
                f"{folder} names no class for {'training' if training else 'testing'}; the first {CUB_TRAIN_CLASSES} of 200 are "
                "for training. Unpack the archive again."
            )
        images = require_images(folder / "images", chosen, folder / "images.txt")
        parts.append(label_images(images, [name.split("/")[0] for name in chosen]))
    return TrainTest(*parts)


HOLIDAYS_LAYOUT = (
    "jpg/100000.jpg, jpg/100001.jpg, … (jpg1.tar.gz and jpg2.tar.gz unpacked into the same folder)"
)


def read_holidays(root: Path | str) -> RetrievalSet:
    """Read Holidays: images whose number ends in 00 are queries, the others with the same number // 100 their answers.

    A query itself is ignored in its ranking.

    Raises:
        UserError: jpg/ is missing, a file is not named by six digits, or a group has no query or no answer.
    """
    root = Path(root)
    require_names(root, HOLIDAYS_LAYOUT, "jpg/")
    images = find_images(root / "jpg", naming="path")
    wrong = [
        image_id
        for image_id in images.ids
        if not (len(image_id) == 6 and image_id.isascii() and image_id.isdigit())
    ]
    if wrong:
        raise UserError(
            f"{root / 'jpg'} holds {len(wrong)} images not named by six digits, such as {wrong[0]!r}. Expected {HOLIDAYS_LAYOUT}."
        )
    groups: dict[int, list[int]] = defaultdict(list)
    for row, image_id in enumerate(images.ids):
        groups[int(image_id) // 100].append(row)
    for group, rows in groups.items():
        if len(rows) < 2 or not images.ids[rows[0]].endswith("00"):
            raise UserError(
                f"{root / 'jpg'}: group {group} has {len(rows)} images, the first is {images.ids[rows[0]]}; expected the query "
                f"{group}00 and at least one more. Are both archives unpacked? Expected {HOLIDAYS_LAYOUT}."
            )
    queries = [rows[0] for rows in groups.values()]
    return RetrievalSet(
        images, queries, [rows[1:] for rows in groups.values()], [[query] for query in queries]
    )


ONLINE_PRODUCTS_LAYOUT = (
    "Ebay_train.txt, Ebay_test.txt and the folders bicycle_final/, …, toaster_final/ "
    "(Stanford_Online_Products.zip)"
)
HEADER = "image_id class_id super_class_id path"


def read_online_products(root: Path | str) -> TrainTest:
    """Read the training and test images of Stanford_Online_Products/, or of the folder that contains it.

    Classes are products, ids are paths relative to the tables' folder.

    Raises:
        UserError: tables are missing or in another format, or listed images do not exist.
    """
    root = Path(root)
    require_names(root, ONLINE_PRODUCTS_LAYOUT)
    inside = root / "Stanford_Online_Products"
    folder = inside if inside.is_dir() else root
    require_names(folder, ONLINE_PRODUCTS_LAYOUT, "Ebay_train.txt", "Ebay_test.txt")
    return TrainTest(
        _part_of_online_products(folder, "Ebay_train.txt"), _part_of_online_products(folder, "Ebay_test.txt")
    )


def _part_of_online_products(folder: Path, table: str) -> LabelledImages:
    rows = read_columns(folder / table, 4, HEADER)
    return label_images(
        require_images(folder, [row[3] for row in rows], folder / table), [row[1].zfill(5) for row in rows]
    )


UKB_LAYOUT = (
    "full/ukbench00000.jpg, full/ukbench00001.jpg, … in fours (ukbench.zip), or the same images without full/"
)


def read_ukb(root: Path | str) -> LabelledImages:
    """Read the images of full/, or of `root` itself, in the order of their numbers; labels are the objects, number // 4.

    Every image is a query for `submissions.scoring.retrieval.ukb_score`.

    Raises:
        UserError: there are no images, images have other names, or an object does not have exactly four images.
    """
    root = Path(root)
    require_names(root, UKB_LAYOUT)
    folder = root / "full" if (root / "full").is_dir() else root
    images = find_images(folder, naming="path")
    numbers = [image_id.removeprefix("ukbench") for image_id in images.ids]
    wrong = [
        image_id
        for image_id, number in zip(images.ids, numbers, strict=True)
        if len(number) != 5 or not number.isdecimal()
    ]
    if wrong:
        raise UserError(
            f"{folder} holds {len(wrong)} images with other names, such as {wrong[0]!r}; expected {UKB_LAYOUT}."
        )
    objects, labels, sizes = np.unique(
        [int(number) // 4 for number in numbers], return_inverse=True, return_counts=True
    )
    if (sizes != 4).any():
        first = int(objects[sizes != 4][0])
        raise UserError(
            f"{folder}: {int((sizes != 4).sum())} objects do not have four images; the first should have "
            f"ukbench{4 * first:05d} to ukbench{4 * first + 3:05d}. Is the archive unpacked completely? Expected {UKB_LAYOUT}."
        )
    return LabelledImages(images, labels.astype(np.int64), [f"{number:05d}" for number in objects.tolist()])
