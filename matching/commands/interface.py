"""The matcher from Python, with the descriptor that ships: `import image_copies`, then `image_copies.find_copies(folder)`."""

import os
import reprlib
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.matching.calibration import make_rule
from image_copies.matching.commands import comparing, searching
from image_copies.matching.commands.sources import Sources, find_pictures
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.files.plan import COLUMNS, PlanRow, plan_values, read_plan
from image_copies.matching.output import Output
from image_copies.matching.results.folder import PLAN
from image_copies.matching.results.grid import PictureGrid
from image_copies.models.shipped import SHIPPED

if TYPE_CHECKING:
    import pandas as pd

Place = str | os.PathLike[str]
FALSE_ALARMS = 0.001
MOST_REFERENCES = 10


class Copies(list[list[Path]]):
    """Groups of copies as absolute paths, each with the file that a plan would keep first; a notebook shows them as pictures."""

    def __init__(self, rows: Sequence[PlanRow]) -> None:
        groups: dict[int, list[Path]] = {}
        for row in rows:
            groups.setdefault(row.group, []).append(row.file)
        super().__init__(groups.values())
        self.rows = rows

    def to_pandas(self) -> "pd.DataFrame":
        """Return a table with a row for each file: its group, what a plan would do with it and why, the score and the class."""
        import pandas as pd  # imported here: only tables need it

        table = pd.DataFrame([plan_values(row) for row in self.rows], columns=COLUMNS)
        return table.assign(**{name: pd.to_numeric(table[name]) for name in ("score", "certainty", "sharpness")})

    def show(self, groups: int = 20, laid: bool = False) -> PictureGrid:
        """Return the first groups as a grid of pictures, which a notebook shows; `laid`: also each laid on the first."""
        shown: dict[int, list[tuple[Path, str]]] = {}
        for row in self.rows:
            if row.group in shown or len(shown) < groups:
                shown.setdefault(row.group, []).append((row.file, f"{row.action}: {row.file.name}"))
        return PictureGrid([(f"{len(files)} copies", files) for files in shown.values()], laid)

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def find_copies(
    *folders: Place | Sequence[Place], verify: int | None = None, views: bool | None = None, progress: bool | None = None
) -> Copies:
    """Find the copies in folders, as `match.py --queries` does; no file is changed or written next to the pictures.

    It can be interrupted at any time (Ctrl-C, a notebook's stop button) and leaves nothing behind.

    Args:
        folders: Folders, archives or files, or lists of them.
        verify: Nearest pictures of each that are compared by local features; 0 for none, None for 10 of up to 50,000
            pictures.
        views: Whether crops, a turn and the negative of pictures for which nothing is found for sure are searched with, too;
            None for with up to 50,000 pictures.
        progress: Whether bars are shown on standard error; None for in a terminal and in a notebook.

    Returns:
        Groups of copies, a list of lists of paths with `to_pandas()` and `show()`.

    Raises:
        UserError: A folder is missing or holds no picture, or no path is given.
    """
    quiet = Output(quiet=True)
    if progress is None:
        progress = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    with tempfile.TemporaryDirectory() as place, nullcontext() if progress else quiet.silence():
        sources = Sources([path for given in folders for path in _list_paths(given)])
        if not sources.queries:
            raise UserError("no path is given. Give a folder: find_copies('photos').")
        pictures = find_pictures(sources, Path(place), quiet)
        rule = make_rule(open_shipped(), None, FALSE_ALARMS, MOST_REFERENCES)
        settings = searching.SearchSettings(sources, rule, Path(place), verified=verify, views=views)
        searching.search(open_shipped(), settings, pictures, quiet)
        return Copies(read_plan(Path(place) / PLAN))


def compare(first: Place, second: Place) -> comparing.Verdict:
    """Compare two pictures by their vectors and local features, as `match.py A B --verify` does; `.show()` is for notebooks.

    Raises:
        UserError: One of them cannot be read.
    """
    one, other = _as_path(first), _as_path(second)
    known = comparing.compare_bytes(one, other)
    return known or comparing.compare(open_shipped(), make_rule(open_shipped(), None, FALSE_ALARMS, 1), one, other, verified=True)


def embed(pictures: Place | Sequence[Place]) -> NDArray[np.float32]:
    """Return the vectors [n, 256] float32, of unit length, of pictures, or of one; near each other for copies.

    Raises:
        UserError: A picture cannot be decoded; the message names the first.
    """
    paths = _list_paths(pictures)
    extractor = open_shipped()
    if not paths:
        return np.zeros((0, extractor.dimensions), np.float32)
    found = extractor.extract_all(ImageSet([str(row) for row in range(len(paths))], paths))
    if found.unreadable.any():
        raise UserError(f"{paths[int(found.unreadable.argmax())]} cannot be decoded as a picture. Leave it out.")
    return found.vectors


def _list_paths(given: Place | Sequence[Place]) -> list[Path]:
    places = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    return [_as_path(place) for place in places]


def _as_path(place: object) -> Path:
    if not isinstance(place, (str, os.PathLike)):
        kind = type(place).__name__
        raise UserError(f"{reprlib.repr(place)} is of type {kind}. Give the path of a file or folder, or a list of paths.")
    if not os.fspath(place):
        raise UserError("the path is empty. Give a file or a folder; '.' is the current folder.")
    return Path(place)


@cache
def open_shipped() -> Extractor:
    """Return the descriptor that ships."""
    return checkpoint_extractor(SHIPPED)
