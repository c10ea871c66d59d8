"""CUB-200-2011, Cars-196 and Stanford Online Products as unpacked from their archives, and the figures of classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages, label_images, read_class_folders
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.training.classifier import has_classifier, load_classifier
from image_copies.models.training.collapse import describe_spread
from image_copies.pipeline.tools.evaluate import Figures, Source

from ..multigrain.metrics import Floats, Labels, recall_at
from ..multigrain.sets import require_names

Parts = tuple[LabelledImages, LabelledImages]  # training and test images, whose classes are disjoint
MAX_EXACT_KMEANS = 20_000  # more vectors than this are clustered in batches


def read_columns(path: Path, columns: int) -> list[list[str]]:
    """Read a table with so many whitespace-separated columns.

    Raises:
        UserError: a line has another number of columns, or there are none.
    """
    rows = [line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    for number, parts in enumerate(rows, start=1):
        if len(parts) not in (0, columns):
            raise UserError(
                f"{path}, line {number} has {len(parts)} columns; expected {columns}: {parts[:4]}."
            )
    if not any(rows):
        raise UserError(f"{path} contains no rows. Unpack the archive again.")
    return [parts for parts in rows if parts]


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


def read_cars(root: Path | str) -> Parts:
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
    return _split(LabelledImages(images, classes - 1, titles), CARS_TRAIN_CLASSES, file)


CUB_LAYOUT = "CUB_200_2011/images.txt, CUB_200_2011/image_class_labels.txt and CUB_200_2011/images/… (CUB_200_2011.tgz)"
CUB_TRAIN_CLASSES = 100


def read_cub(root: Path | str) -> Parts:
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
    images = require_images(folder / "images", list(names.values()), folder / "images.txt")
    labels = np.array([int(class_of[number]) - 1 for number in names])
    folders = {int(class_of[number]) - 1: name.split("/")[0] for number, name in names.items()}
    titles = [folders.get(label, "") for label in range(max(folders) + 1)]
    return _split(LabelledImages(images, labels, titles), CUB_TRAIN_CLASSES, folder)


def _split(labelled: LabelledImages, training: int, source: Path) -> Parts:
    """Split images by their classes, of which the first `training` are learnt."""
    learnt = labelled.labels < training
    if learnt.all() or not learnt.any():
        raise UserError(
            f"{source}: its classes leave none for training or none for testing; the first {training} are for training. "
            "Unpack the archive again."
        )
    return labelled.part(learnt), labelled.part(~learnt)


ONLINE_PRODUCTS_LAYOUT = (
    "Ebay_train.txt, Ebay_test.txt and the folders bicycle_final/, …, toaster_final/ "
    "(Stanford_Online_Products.zip)"
)
HEADER = "image_id class_id super_class_id path"


def read_online_products(root: Path | str) -> Parts:
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
    return _part_of_online_products(folder, "Ebay_train.txt"), _part_of_online_products(
        folder, "Ebay_test.txt"
    )


def _part_of_online_products(folder: Path, table: str) -> LabelledImages:
    header, *rows = read_columns(folder / table, 4)
    if header != HEADER.split():
        raise UserError(
            f"{folder / table} does not begin with the line {HEADER!r} but with {header}. Unpack the archive again."
        )
    images = require_images(folder, [row[3] for row in rows], folder / table)
    return label_images(images, [row[1].zfill(5) for row in rows])


def evaluate_cub(view: View, source: Source) -> Figures:
    """Compute the figures of the test classes."""
    return _evaluate_classes(view, read_cub(source.root)[1])


def evaluate_cars(view: View, source: Source) -> Figures:
    """Compute the figures of the test classes."""
    return _evaluate_classes(view, read_cars(source.root)[1])


def evaluate_online_products(view: View, source: Source) -> Figures:
    """Compute the figures of the test classes, Recall@K at the papers' K."""
    return _evaluate_classes(view, read_online_products(source.root)[1], (1, 10, 100, 1000))


def normalized_mutual_information(vectors: Floats, labels: Labels, seed: int = 0) -> float:
    """Compute NMI 0…1 between classes and as many k-means clusters: I / √(H(classes) H(clusters)) (SVMax, appendix B).

    Of the vectors [n, d], more than MAX_EXACT_KMEANS are clustered by mini-batch k-means; labels are int64 [n].
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans  # imported here: it takes a second
    from sklearn.metrics import normalized_mutual_info_score

    clusters = len(np.unique(labels))
    kind = KMeans if len(vectors) <= MAX_EXACT_KMEANS else MiniBatchKMeans
    found = kind(clusters, n_init=1, random_state=seed).fit_predict(
        np.ascontiguousarray(vectors, dtype=np.float32)
    )
    return float(normalized_mutual_info_score(labels, found, average_method="geometric"))


def _evaluate_classes(view: View, labelled: LabelledImages, ks: Sequence[int] = (1, 2, 4, 8)) -> Figures:
    """Compute Recall@K at the papers' K (IDEAL, table 3), NMI and the mean singular value s with its bounds (SVMax)."""
    vectors = embed_view(view, labelled.images)
    readable = vectors[vectors.any(axis=1)]
    if not len(readable):
        raise UserError(f"none of the {len(labelled)} images can be read.")
    figures = {f"Recall@{k}": value for k, value in recall_at(vectors, labelled.labels, ks).items()}
    figures["NMI"] = normalized_mutual_information(vectors, labelled.labels)
    spread = describe_spread(torch.from_numpy(readable))
    names = ("s", "s: lower bound", "s: upper bound")
    return figures | {name: float(value) for name, value in zip(names, spread.values(), strict=True)}


def evaluate_class_folders(view: View, source: Source) -> Figures:
    """Compute the figures of classes, and top-1 and top-5 accuracy if there is a classifier.

    Its classes must be the folders, in the order of names.
    """
    labelled = read_class_folders(source.root)
    checkpoint = source.checkpoint
    figures = _evaluate_classes(view, labelled)
    if has_classifier(checkpoint) and not view.descriptor.settings.domains:
        weight, bias = load_classifier(checkpoint)
        if len(weight) != len(labelled.names):
            print(
                f"no top-1: the classifier has {len(weight)} classes, but {source.root} has {len(labelled.names)}"
            )
        else:
            # whitened and folded they are the same (studies/multigrain/whitening.py)
            logits = torch.from_numpy(embed_view(view, labelled.images, raw=True)) @ weight.T + bias
            best = logits.topk(min(5, len(weight)), dim=1).indices.numpy() == labelled.labels[:, None]
            figures |= {"top-1": float(best[:, 0].mean()), "top-5": float(best.any(axis=1).mean())}
    return figures
