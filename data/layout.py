"""The folder layout of the Image Similarity Challenge 2021."""

from dataclasses import dataclass
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import describe_no_folder, is_folder
from image_copies.data.images import ImageSet, find_images
from image_copies.data.remote import as_path

TRAINING, REFERENCE, QUERY = "training_images", "reference_images", "query_images"
TRAINING_LABELS = "training_labels.csv"  # optional: image_id,label
GROUND_TRUTH, QUERY_EDITS = "public_ground_truth.csv", "query_edits.csv"
QUERY_RECORDS = "query_records.jsonl"  # only for queries made by this project: source image and edits of each


@dataclass(frozen=True)
class IscFolder:
    """A data set in the ISC2021 layout."""

    root: Path
    training: ImageSet
    reference: ImageSet
    query: ImageSet
    ground_truth: Path | None  # CSV of the true copies; None where the folder has none
    query_edits: Path | None  # CSV of the edits that made each query; None where the folder has none


def open_isc_folder(root: Path | str) -> IscFolder:
    """Open a folder in the ISC2021 layout and list its images.

    Raises:
        UserError: a folder of the layout is missing or contains no image, or its object store cannot be used.
    """
    root = as_path(root)
    if not is_folder(root):
        raise UserError(f"{describe_no_folder(root)}. Give --data a folder that holds {TRAINING}/, {REFERENCE}/ and {QUERY}/.")
    missing = [name for name in (TRAINING, REFERENCE, QUERY) if not (root / name).is_dir()]
    if missing:
        raise UserError(
            f"{root} lacks {', '.join(f'{name}/' for name in missing)}; the ISC2021 layout is {TRAINING}/, {REFERENCE}/, "
            f"{QUERY}/ and, optionally, {GROUND_TRUTH}. For a plain folder of pictures use --photos."
        )
    ground_truth, query_edits = root / GROUND_TRUTH, root / QUERY_EDITS
    return IscFolder(
        root=root,
        training=find_images(root / TRAINING),
        reference=find_images(root / REFERENCE),
        query=find_images(root / QUERY),
        ground_truth=ground_truth if ground_truth.is_file() else None,
        query_edits=query_edits if query_edits.is_file() else None,
    )
