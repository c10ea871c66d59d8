"""INRIA Copydays: 157 photos with strongly edited copies, and optional distractors from elsewhere."""

from collections import defaultdict
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.readers.expected import RetrievalSet, require_names

LAYOUT = "original/200000.jpg, … and strong/200001.jpg, …"


def read_copydays(root: Path | str, distractors: Path | str | None = None) -> RetrievalSet:
    """Read Copydays with the strong copies as queries, searched for among originals and distractors.

    The answer to a query is the original with the same number // 100. Ids are "original/…", "strong/…", "distractor/…". The
    copies are in `images` because they are embedded; every ranking ignores them.

    Raises:
        UserError: a folder is missing, a file is not named by six digits, or a copy has no original.
    """
    root = Path(root)
    require_names(root, LAYOUT, "original/", "strong/")
    parts = [_prefix_ids(kind, root / kind) for kind in ("original", "strong")]
    if distractors is not None:
        parts.append(_prefix_ids("distractor", Path(distractors)))
    images = ImageSet([image_id for part in parts for image_id in part.ids], [path for part in parts for path in part.paths])
    originals: dict[int, list[int]] = defaultdict(list)
    first, end = len(parts[0]), len(parts[0]) + len(parts[1])
    for row in range(first):
        originals[_group(images, row)].append(row)
    queries = list(range(first, end))
    alone = [row for row in queries if _group(images, row) not in originals]
    if alone:
        lonely = images.paths[alone[0]]
        raise UserError(f"{root}: {len(alone)} copies have no original; the first is {lonely}. Expected {LAYOUT}.")
    return RetrievalSet(images, queries, [originals[_group(images, row)] for row in queries], [queries] * len(queries))


def _prefix_ids(prefix: str, folder: Path) -> ImageSet:
    found = find_images(folder, naming="path")
    return ImageSet([f"{prefix}/{image_id}" for image_id in found.ids], found.paths)


def _group(images: ImageSet, row: int) -> int:
    """Return the number that a photo shares with its copies."""
    name = images.paths[row].stem
    if len(name) != 6 or not name.isdecimal():
        raise UserError(f"{images.paths[row]} is not named by six digits, as Copydays' images are. Expected {LAYOUT}.")
    return int(name) // 100
