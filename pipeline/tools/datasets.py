"""Data sets that the project makes itself: the built-in sample, and any folder of photos in the ISC2021 layout."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from augmentations.query_set import make_query_set
from augmentations.settings import AugmentationSettings
from data.errors import UserError
from data.images import ImageSet, find_images
from data.layout import GROUND_TRUTH, QUERY, QUERY_EDITS, REFERENCE, TRAINING
from data.procedural.sample import write_pictures

SAMPLE_TRAINING, SAMPLE_REFERENCES, SAMPLE_QUERIES, SAMPLE_COPIES = 2000, 1000, 1000, 500
COPIER = AugmentationSettings(family="query", intensity=0.7, extra=True)
FEWEST_PHOTOS, MOST_COPIES = 100, 5000


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
        TRAINING: ("T", order[:training]),
        REFERENCE: ("R", order[training : training + references]),
        "distractors": ("D", order[training + references :]),
    }
    sources: list[tuple[str, Path]] = []
    sets: dict[str, ImageSet] = {}
    for name, (prefix, chosen) in parts.items():
        ids = [f"{prefix}{number:06d}" for number in range(len(chosen))]
        paths = [found.paths[index].resolve() for index in chosen]
        sets[name] = ImageSet(ids, paths)
        sources += zip(ids, paths, strict=True)
        if name != "distractors":
            (folder / name).mkdir()
            for image_id, path in zip(ids, paths, strict=True):
                (folder / name / f"{image_id}{path.suffix.lower()}").symlink_to(path)
    pd.DataFrame(sources, columns=["id", "file"]).to_csv(folder / "sources.csv", index=False)
    copies = min(len(sets[REFERENCE]), MOST_COPIES)
    _add_queries(folder, sets["distractors"], copies + min(len(sets["distractors"]), copies), copies, seed)


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
