"""The matcher from Python, with the descriptor that ships: `import image_copies`, then `image_copies.find_copies(folder)`."""

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.matching.calibration import make_rule
from image_copies.matching.commands import comparing, searching
from image_copies.matching.commands.sources import Sources, find_pictures
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.files.plan import read_plan
from image_copies.matching.output import Output
from image_copies.matching.results.folder import PLAN
from image_copies.models.shipped import SHIPPED

FALSE_ALARMS = 0.001
MOST_REFERENCES = 10


def find_copies(*folders: str | os.PathLike[str], verify: int = 10) -> list[list[Path]]:
    """Find the copies in folders, as `match.py --queries` does; no file is changed or written next to the pictures.

    Args:
        folders: Folders, archives or files.
        verify: Nearest pictures of each that are compared by local features; 0 for none.

    Returns:
        Groups of copies as absolute paths, each with the file that a plan would keep first.

    Raises:
        UserError: A folder is missing or holds no picture.
    """
    quiet = Output(quiet=True)
    with tempfile.TemporaryDirectory() as place:
        sources = Sources([Path(folder) for folder in folders])
        pictures = find_pictures(sources, Path(place), quiet)
        rule = make_rule(_open_shipped(), None, FALSE_ALARMS, MOST_REFERENCES)
        settings = searching.SearchSettings(sources, rule, Path(place), verified=verify)
        searching.search(_open_shipped(), settings, pictures, quiet)
        groups: dict[int, list[Path]] = {}
        for row in read_plan(Path(place) / PLAN):
            groups.setdefault(row.group, []).append(row.file)
    return list(groups.values())


def compare(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> comparing.Verdict:
    """Compare two pictures by their vectors and local features, as `match.py A B --verify` does.

    Raises:
        UserError: One of them cannot be read.
    """
    one, other = Path(first), Path(second)
    known = comparing.compare_bytes(one, other)
    return known or comparing.compare(
        _open_shipped(), make_rule(_open_shipped(), None, FALSE_ALARMS, 1), one, other, verified=True
    )


def embed(pictures: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> NDArray[np.float32]:
    """Return the vectors [n, 256] float32, of unit length, of pictures, or of one; near each other for copies.

    Raises:
        UserError: A picture cannot be decoded; the message names the first.
    """
    paths = [Path(picture) for picture in ([pictures] if isinstance(pictures, (str, os.PathLike)) else pictures)]
    extractor = _open_shipped()
    if not paths:
        return np.zeros((0, extractor.dimensions), np.float32)
    found = extractor.extract_all(ImageSet([str(row) for row in range(len(paths))], paths))
    if found.unreadable.any():
        raise UserError(f"{paths[int(found.unreadable.argmax())]} cannot be decoded as a picture. Leave it out.")
    return found.vectors


@cache
def _open_shipped() -> Extractor:
    return checkpoint_extractor(SHIPPED)
