"""Holidays, Copydays and UKB as unpacked from their archives, and a trained network's figures on them (MultiGrain, table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from image_copies.data.arrays import Int64s
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import LabelledImages
from image_copies.models.inference.protocols import View, embed_view
from image_copies.pipeline.tools.evaluate import Figures, Source

from .metrics import mean_average_precision, ukb_score


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
        holds = (
            ", ".join(sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:8]) or "nothing"
        )
        raise UserError(
            f"{root} lacks {', '.join(missing)} (it holds {holds}). Name the root of the unpacked archive: {form}."
        )


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
    numbers = _read_numbers(images.ids, HOLIDAYS_LAYOUT)
    groups = [np.flatnonzero(numbers // 100 == group).tolist() for group in np.unique(numbers // 100)]
    for first, *others in groups:
        if not others or numbers[first] % 100:
            group = numbers[first] // 100
            raise UserError(
                f"{root / 'jpg'}: group {group} has {1 + len(others)} images, the first is {images.ids[first]}; expected "
                f"the query {group}00 and at least one more. Are both archives unpacked? Expected {HOLIDAYS_LAYOUT}."
            )
    queries = [rows[0] for rows in groups]
    return RetrievalSet(images, queries, [rows[1:] for rows in groups], [[query] for query in queries])


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
        [image_id for part in parts for image_id in part.ids],
        [path for part in parts for path in part.paths],
    )
    first, end = len(parts[0]), len(parts[0]) + len(parts[1])
    photos = _read_numbers([path.stem for path in images.paths[:end]], COPYDAYS_LAYOUT) // 100
    queries = list(range(first, end))
    relevant = [np.flatnonzero(photos[:first] == photo).tolist() for photo in photos[first:]]
    alone = [images.paths[row] for row, rows in zip(queries, relevant, strict=True) if not rows]
    if alone:
        raise UserError(
            f"{root}: {len(alone)} copies have no original; the first is {alone[0]}. Expected {COPYDAYS_LAYOUT}."
        )
    return RetrievalSet(images, queries, relevant, [queries] * len(queries))


def _prefix_ids(prefix: str, folder: Path) -> ImageSet:
    found = find_images(folder, naming="path")
    return ImageSet([f"{prefix}/{image_id}" for image_id in found.ids], found.paths)


def _read_numbers(names: Sequence[str], layout: str, digits: int = 6, prefix: str = "") -> Int64s:
    """Return the numbers [n] that names consist of, with so many digits, after a prefix."""
    numbers = [name.removeprefix(prefix) for name in names]
    wrong = [number for number in numbers if len(number) != digits or not number.isdecimal()]
    if wrong:
        raise UserError(f"{len(wrong)} images have other names, such as {wrong[0]!r}. Expected {layout}.")
    return np.array([int(number) for number in numbers])


UKB_LAYOUT = "full/ukbench00000.jpg, full/ukbench00001.jpg, … in fours (ukbench.zip), or the same images without full/"


def read_ukb(root: Path | str) -> LabelledImages:
    """Read the images of full/, or of `root` itself, in the order of their numbers; labels are the objects, number // 4.

    Every image is a query for `ukb_score`.

    Raises:
        UserError: there are no images, images have other names, or an object does not have exactly four images.
    """
    root = Path(root)
    require_names(root, UKB_LAYOUT)
    folder = root / "full" if (root / "full").is_dir() else root
    images = find_images(folder, naming="path")
    numbers = _read_numbers(images.ids, UKB_LAYOUT, 5, "ukbench")
    objects, labels, sizes = np.unique(numbers // 4, return_inverse=True, return_counts=True)
    if (sizes != 4).any():
        first = int(objects[sizes != 4][0])
        raise UserError(
            f"{folder}: {int((sizes != 4).sum())} objects do not have four images; the first should have "
            f"ukbench{4 * first:05d} to ukbench{4 * first + 3:05d}. Is the archive unpacked completely? Expected {UKB_LAYOUT}."
        )
    return LabelledImages(images, labels.astype(np.int64), [f"{number:05d}" for number in objects.tolist()])


def evaluate_holidays(view: View, source: Source) -> Figures:
    """Compute mAP; the query itself is ignored."""
    return _evaluate_ranking(view, read_holidays(source.root))


def evaluate_copydays(view: View, source: Source) -> Figures:
    """Compute the mAP of the strong copies."""
    return _evaluate_ranking(view, read_copydays(source.root, distractors=source.distractors))


def _evaluate_ranking(view: View, found: RetrievalSet) -> Figures:
    vectors = embed_view(view, found.images)
    return {"mAP": mean_average_precision(vectors[found.queries], vectors, found.relevant, found.ignored)}


def evaluate_ukb(view: View, source: Source) -> Figures:
    """Compute the UKB score."""
    labelled = read_ukb(source.root)
    return {"UKB score (of 4)": ukb_score(embed_view(view, labelled.images), labelled.labels)}
