"""Data sets that the project makes itself: the built-in sample, and any folder of photos in the ISC2021 layout."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from augmentations.query_set import make_query_set
from augmentations.settings import AugmentationSettings
from data.errors import UserError
from data.images import ImageSet, find_images
from data.layout import GROUND_TRUTH, QUERY, QUERY_EDITS, REFERENCE, TRAINING, TRAINING_LABELS
from data.procedural.sample import write_pictures
from data.readers.cars import read_cars
from data.readers.cub import read_cub
from data.readers.expected import TrainTest
from data.readers.online_products import read_online_products

SAMPLE_TRAINING, SAMPLE_REFERENCES, SAMPLE_QUERIES, SAMPLE_COPIES = 2000, 1000, 1000, 500
COPIER = AugmentationSettings(family="query", intensity=0.7, extra=True)
FEWEST_PHOTOS, MOST_COPIES = 100, 5000
DISTRACTORS = "distractors"
PREFIXES = {TRAINING: "T", REFERENCE: "R", DISTRACTORS: "D"}  # of ids
ARCHIVES: dict[str, Callable[[Path], TrainTest]] = {
    "cub": read_cub,
    "cars": read_cars,
    "online_products": read_online_products,
}


def make_sample(folder: Path, seed: int) -> None:
    """Draw 2,000 training pictures, 1,000 references and 1,000 queries, 500 of them edited copies; the same for the same seed."""
    pictures = {
        TRAINING: ("T", SAMPLE_TRAINING),
        REFERENCE: ("R", SAMPLE_REFERENCES),
        "distractors": ("D", SAMPLE_QUERIES - SAMPLE_COPIES),
    }
    with tqdm(total=sum(count for _, count in pictures.values()), desc="drawing the sample", unit="picture") as bar:
        for name, (prefix, count) in pictures.items():
            for _ in write_pictures(folder / name, prefix, count, seed):
                bar.update()
    _add_queries(folder, find_images(folder / "distractors"), SAMPLE_QUERIES, SAMPLE_COPIES, seed)
    shutil.rmtree(folder / "distractors")


def make_from_photos(photos: Path, folder: Path, seed: int) -> None:
    """Share out any pictures, half for training, three tenths as references, one fifth as distractors, and edit queries.

    Pictures are linked, not copied; `sources.csv` says which id is which file.

    Raises:
        UserError: There are fewer than 100 pictures.
    """
    found = find_images(photos, naming="path")
    if len(found) < FEWEST_PHOTOS:
        raise UserError(f"{photos} holds {len(found)} pictures; at least {FEWEST_PHOTOS} are needed to train and to score.")
    order = np.random.default_rng(seed).permutation(len(found))
    training, references = round(len(found) * 0.5), round(len(found) * 0.3)
    parts = {
        TRAINING: [found.paths[row] for row in order[:training]],
        REFERENCE: [found.paths[row] for row in order[training : training + references]],
        DISTRACTORS: [found.paths[row] for row in order[training + references :]],
    }
    _link_and_query(parts, folder, seed)


def make_from_archive(name: str, root: Path, folder: Path, seed: int) -> None:
    """One of the ARCHIVES of metric learning: its training classes to learn, with labels, its test images to search.

    Images are linked, not copied; `sources.csv` says which id is which file. Of the test images four fifths are references, the
    others distractors; queries are edited as for photos. The papers' figures are `evaluate.py`'s, on the archive itself.

    Args:
        name: Key of ARCHIVES.
        root: The unpacked archive.
        folder: Where the data set goes.
        seed: Of the shares and the edits.

    Raises:
        UserError: `root` is not what the archive unpacks to.
    """
    found = ARCHIVES[name](root)
    test = found.test.images
    order = np.random.default_rng(seed).permutation(len(test))
    references = min(len(test) - 1, round(len(test) * 0.8))
    parts = {
        TRAINING: list(found.train.images.paths),
        REFERENCE: [test.paths[row] for row in order[:references]],
        DISTRACTORS: [test.paths[row] for row in order[references:]],
    }
    sets = _link_and_query(parts, folder, seed)
    labels = [found.train.names[label] for label in found.train.labels]
    pd.DataFrame({"image_id": sets[TRAINING].ids, "label": labels}).to_csv(folder / TRAINING_LABELS, index=False)


def _link_and_query(parts: dict[str, list[Path]], folder: Path, seed: int) -> dict[str, ImageSet]:
    """Link every part but the distractors into its folder under new ids, and edit the queries; returns the parts as named."""
    sources: list[tuple[str, Path]] = []
    sets: dict[str, ImageSet] = {}
    for name, files in parts.items():
        ids = [f"{PREFIXES[name]}{number:06d}" for number in range(len(files))]
        paths = [path.resolve() for path in files]
        sets[name] = ImageSet(ids, paths)
        sources += zip(ids, paths, strict=True)
        if name != DISTRACTORS:
            (folder / name).mkdir()
            for image_id, path in zip(ids, paths, strict=True):
                (folder / name / f"{image_id}{path.suffix.lower()}").symlink_to(path)
    pd.DataFrame(sources, columns=["id", "file"]).to_csv(folder / "sources.csv", index=False)
    copies = min(len(sets[REFERENCE]), MOST_COPIES)
    _add_queries(folder, sets[DISTRACTORS], copies + min(len(sets[DISTRACTORS]), copies), copies, seed)
    return sets


def _add_queries(folder: Path, distractors: ImageSet, count: int, copies: int, seed: int) -> None:
    """Edited copies of references and edited distractors; overlay material comes from the distractors."""
    made = folder / "made"
    make_query_set(
        references=find_images(folder / REFERENCE),
        distractors=distractors,
        overlays=distractors,
        settings=COPIER,
        seed=seed + 1,
        count=count,
        copies=copies,
        folder=made,
    )
    for name in (QUERY, GROUND_TRUTH, QUERY_EDITS):
        (made / name).rename(folder / name)
    shutil.rmtree(made)
