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
    """Copies are the queries, originals and distractors are searched; a query's answer is the original of the same number // 100.

    Ids are "original/…", "strong/…", "distractor/…". The other copies are in `images` only to be embedded: they are ignored, as
    the
    query itself is.

    Args:
        root: the unpacked archives.
        copies: which edits.
        strength: quality of "jpeg" or per cent cut away of "crops" (the name of the subfolder); None for all of them.
        distractors: a folder of other images.

    Raises:
        UserError: a missing folder, names that are not numbers, a copy without its original.
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
        raise UserError(f"{root}: {len(alone)} copies have no original, the first is {lonely}. Expected {LAYOUT}.")
    return RetrievalSet(images, queries, [originals[_group(images, row)] for row in queries], [queries] * len(queries))


def _prefix_ids(prefix: str, folder: Path) -> ImageSet:
    found = find_images(folder, naming="path")
    return ImageSet([f"{prefix}/{image_id}" for image_id in found.ids], found.paths)


def _group(images: ImageSet, row: int) -> int:
    """The number that a photo and its copies share."""
    name = images.paths[row].stem
    if len(name) != 6 or not name.isdecimal():
        raise UserError(f"{images.paths[row]} is not named by six figures, as Copydays' images are: {LAYOUT}.")
    return int(name) // 100
