"""INRIA Copydays: 157 photos with JPEG, cropped and strongly edited copies, and optional distractors from elsewhere."""

from collections import defaultdict
from pathlib import Path
from typing import Literal, get_args

from data.errors import UserError
from data.images import ImageSet, find_images
from data.readers.expected import RetrievalSet, require_names

Copies = Literal["strong", "jpeg", "crops"]
LAYOUT = "original/200000.jpg, … and strong/200001.jpg, …, jpeg/<quality>/200000.jpg, …, crops/<per cent>/200000.jpg, …"


def read_copydays(
    root: Path | str, copies: Copies = "strong", strength: int | None = None, distractors: Path | str | None = None
) -> RetrievalSet:
    """Read Copydays with the copies as queries, searched for among originals and distractors.

    The answer to a query is the original with the same number // 100. Ids are "original/…", "strong/…", "distractor/…". The
    copies are in `images` because they are embedded; every ranking ignores them.

    Args:
        root: Folder of the unpacked archives.
        copies: The kind of copies.
        strength: Name of the subfolder: quality for "jpeg", per cent cropped away for "crops"; None for all.
        distractors: A folder of other images.

    Raises:
        UserError: a folder is missing, a file is not named by six digits, a copy has no original, or
            there are no such copies.
    """
    root = Path(root)
    if copies not in get_args(Copies):
        raise UserError(f"copies {copies!r}: choose one of {', '.join(get_args(Copies))}.")
    if strength is not None and copies == "strong":
        raise UserError("Copydays' strong copies have no strength; leave it out, or choose jpeg or crops.")
    folder = copies if strength is None else f"{copies}/{strength}"
    require_names(root, LAYOUT, "original/", f"{folder}/")
    parts = [_prefix_ids("original", root / "original"), _prefix_ids(folder, root / folder)]
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
