"""The folder layout of the Image Similarity Challenge 2021."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError
from .files import describe_no_folder, is_folder
from .images import ImageSet, find_images

TRAINING = "training_images"
REFERENCE = "reference_images"
QUERY = "query_images"
TRAINING_LABELS = "training_labels.csv"  # optional: image_id,label
GROUND_TRUTH = "public_ground_truth.csv"
QUERY_EDITS = "query_edits.csv"
# only for queries made by this project: source image and edits of each
QUERY_RECORDS = "query_records.jsonl"


@dataclass(frozen=True)
class IscFolder:
    """A data set in the ISC2021 layout."""

    root: Path
    training: ImageSet
    reference: ImageSet
    query: ImageSet
    ground_truth: Path | None  # CSV of the true copies; None where the folder has none
    query_edits: Path | None  # CSV of the edits that made each query; None where the folder has none


def open_isc_folder(root: Path) -> IscFolder:
    """Open a folder in the ISC2021 layout and list its images.

    Raises:
        UserError: a folder of the layout is missing or contains no image, or its object store cannot be used.
    """
    if not is_folder(root):
        raise UserError(
            f"{describe_no_folder(root)}. Give --data a folder that holds {TRAINING}/, {REFERENCE}/ and {QUERY}/."
        )
    missing = [name for name in (TRAINING, REFERENCE, QUERY) if not (root / name).is_dir()]
    if missing:
        raise UserError(
            f"{root} lacks {', '.join(f'{name}/' for name in missing)}; the ISC2021 layout is {TRAINING}/, {REFERENCE}/, "
            f"{QUERY}/ and, optionally, {GROUND_TRUTH}. For a plain folder of pictures use --photos."
        )
    ground_truth = root / GROUND_TRUTH
    query_edits = root / QUERY_EDITS
    return IscFolder(
        root=root,
        training=find_images(root / TRAINING),
        reference=find_images(root / REFERENCE),
        query=find_images(root / QUERY),
        ground_truth=ground_truth if ground_truth.is_file() else None,
        query_edits=query_edits if query_edits.is_file() else None,
    )


@dataclass(frozen=True)
class TrainingSplit:
    """Training image ids by role, each list in the same seeded order."""

    classes: list[str]  # ArcFace learns them; a stage with C classes uses the first C
    overlays: list[str]  # pasted into others
    references: list[str]  # originals of the synthetic queries, searched for among these
    distractors: list[str]  # edited into synthetic queries that are copies of nothing


def split_training(
    ids: list[str], seed: int, validation: float = 0.2, overlay: float = 0.05
) -> TrainingSplit:
    """Assign roles to the training ids in the order of a hash of (seed, id): the same ids and seed give the same roles.

    `validation` and `overlay` are fractions in [0, 1]: of images held out from training, two thirds of them references and one
    third distractors, and of those held out for pasting into other images.

    Raises:
        UserError: a role would be empty.
    """
    order = sorted(ids, key=lambda image_id: hashlib.sha256(f"{seed}:{image_id}".encode()).digest())
    held_out = round(len(order) * validation)
    kept = round(len(order) * overlay)
    references = round(held_out * 2 / 3)
    split = TrainingSplit(
        classes=order[held_out + kept :],
        overlays=order[held_out : held_out + kept],
        references=order[:references],
        distractors=order[references:held_out],
    )
    empty = [
        role for role in ("classes", "overlays", "references", "distractors") if not getattr(split, role)
    ]
    if empty:
        raise UserError(
            f"{len(ids)} training images are too few: with validation {validation} and overlay {overlay} no image is left "
            f"for {', '.join(empty)}. Add training images or change these shares in the recipe: "
            "with validation 0.2 and overlay 0.05, 50 images are enough to start."
        )
    return split
