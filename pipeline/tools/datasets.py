"""Making data sets in the ISC2021 layout: the built-in sample, from any folder of photos, from archives with classes."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.kinds import TRAINING_SETS, load_kind
from image_copies.data.layout import GROUND_TRUTH, QUERY, QUERY_EDITS, REFERENCE, TRAINING, TRAINING_LABELS
from image_copies.data.procedural import write_pictures

SAMPLE_TRAINING = 2000
SAMPLE_REFERENCES = 1000
SAMPLE_QUERIES = 1000
SAMPLE_COPIES = 500
QUERY_EDITS_SETTINGS = AugmentationSettings(family="query", intensity=0.7, extra=True)
MIN_PHOTOS, MAX_COPIES = 100, 5000
DISTRACTORS = "distractors"
ID_PREFIXES = {TRAINING: "T", REFERENCE: "R", DISTRACTORS: "D"}


def make_sample(folder: Path, seed: int) -> None:
    """Draw 2,000 training pictures, 1,000 references and 1,000 queries, 500 of them edited copies, all by the seed."""
    pictures = {
        TRAINING: ("T", SAMPLE_TRAINING),
        REFERENCE: ("R", SAMPLE_REFERENCES),
        "distractors": ("D", SAMPLE_QUERIES - SAMPLE_COPIES),
    }
    total = sum(count for _, count in pictures.values())
    with tqdm(total=total, desc="drawing the sample", unit="picture") as bar:
        for name, (prefix, count) in pictures.items():
            for _ in write_pictures(folder / name, prefix, count, seed):
                bar.update()
    _add_queries(folder, find_images(folder / "distractors"), SAMPLE_QUERIES, SAMPLE_COPIES, seed)
    shutil.rmtree(folder / "distractors")


def make_from_photos(photos: Path, folder: Path, seed: int) -> None:
    """Split any pictures into training (50 %), references (30 %) and distractors (20 %), and edit queries, both by the seed.

    Pictures are linked, not copied; `sources.csv` lists the file of each id.

    Raises:
        UserError: when there are fewer than MIN_PHOTOS pictures.
    """
    found = find_images(photos, naming="path")
    if len(found) < MIN_PHOTOS:
        raise UserError(
            f"{photos} holds {len(found)} pictures; at least {MIN_PHOTOS} are needed to train and to score. Add more."
        )
    order = np.random.default_rng(seed).permutation(len(found))
    training = round(len(found) * 0.5)
    references = round(len(found) * 0.3)
    parts = {
        TRAINING: [found.paths[row] for row in order[:training]],
        REFERENCE: [found.paths[row] for row in order[training : training + references]],
        DISTRACTORS: [found.paths[row] for row in order[training + references :]],
    }
    _link_and_query(parts, folder, seed)


def make_from_archive(name: str, root: Path, folder: Path, seed: int) -> None:
    """Make a data set from one of TRAINING_SETS: its labelled training classes, and queries from its test images.

    Images are linked, not copied; `sources.csv` lists the file of each id. Of the test images 80 % are references, the others
    distractors; queries are edited as for photos. The papers' own figures are measured by `evaluate.py` on the archive itself.

    Raises:
        UserError: when `root` is not what the archive unpacks to.
    """
    learnt, tested = load_kind(TRAINING_SETS, name)(root)
    test = tested.images
    order = np.random.default_rng(seed).permutation(len(test))
    references = min(len(test) - 1, round(len(test) * 0.8))
    parts = {
        TRAINING: list(learnt.images.paths),
        REFERENCE: [test.paths[row] for row in order[:references]],
        DISTRACTORS: [test.paths[row] for row in order[references:]],
    }
    sets = _link_and_query(parts, folder, seed)
    labels = [learnt.names[label] for label in learnt.labels]
    pd.DataFrame({"image_id": sets[TRAINING].ids, "label": labels}).to_csv(
        folder / TRAINING_LABELS, index=False
    )


def _link_and_query(parts: dict[str, list[Path]], folder: Path, seed: int) -> dict[str, ImageSet]:
    """Link every part except the distractors into its folder under new ids, and edit the queries; return the parts by name."""
    sources: list[tuple[str, Path]] = []
    sets: dict[str, ImageSet] = {}
    for name, files in parts.items():
        ids = [f"{ID_PREFIXES[name]}{number:06d}" for number in range(len(files))]
        paths = [path.resolve() for path in files]
        sets[name] = ImageSet(ids, paths)
        sources += zip(ids, paths, strict=True)
        if name != DISTRACTORS:
            (folder / name).mkdir()
            for image_id, path in zip(ids, paths, strict=True):
                (folder / name / f"{image_id}{path.suffix.lower()}").symlink_to(path)
    pd.DataFrame(sources, columns=["id", "file"]).to_csv(folder / "sources.csv", index=False)
    copies = min(len(sets[REFERENCE]), MAX_COPIES)
    _add_queries(folder, sets[DISTRACTORS], copies + min(len(sets[DISTRACTORS]), copies), copies, seed)
    return sets


def _add_queries(folder: Path, distractors: ImageSet, count: int, copies: int, seed: int) -> None:
    """Write edited copies of references and edited distractors as queries; overlays come from the distractors."""
    made = folder / "made"
    make_query_set(
        references=find_images(folder / REFERENCE),
        distractors=distractors,
        overlays=distractors,
        settings=QUERY_EDITS_SETTINGS,
        seed=seed + 1,
        count=count,
        copies=copies,
        folder=made,
    )
    for name in (QUERY, GROUND_TRUTH, QUERY_EDITS):
        (made / name).rename(folder / name)
    shutil.rmtree(made)
