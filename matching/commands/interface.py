"""The matcher from Python, with the descriptor that ships: `import image_copies`, then `image_copies.find_copies(folder)`."""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError
from image_copies.models.shipped import SHIPPED

from ..extractor import Extractor, checkpoint_extractor, join_extractors, make_rule
from ..files.keeping import KeepSettings, read_rules
from ..files.plan import COLUMNS, plan_values
from ..groups.planning import CopyGroup
from ..matches import JUDGEMENT_CELLS, MATCH_CELLS, SERIES_CELLS, Match, match_values
from ..output import Output
from ..show.overlays import PictureGrid
from ..verification.judgement import Kind
from . import comparing, searching
from .sources import find_pictures

if TYPE_CHECKING:
    import pandas as pd

Place = str | os.PathLike[str]
NEAR: tuple[Kind, ...] = ("likely", "same scene")  # classes of pairs that a person has to look at


class Copies(list[CopyGroup]):
    """Groups of files that are the same or certainly copies, as absolute paths; a notebook shows them as pictures.

    Of each group the first is the one that a plan would keep; `removable` are those that it would remove.

    Attributes:
        near: Pairs that are likely copies, or show the same scene, best first; a person has to look at them.
        left_out: What was not looked at because it would take too long, in words; empty for nothing.
        unreadable: Files that cannot be decoded.
    """

    def __init__(
        self, groups: Sequence[CopyGroup], near: Sequence[Match], left_out: str, unreadable: Sequence[Path]
    ) -> None:
        super().__init__(groups)
        self.near = near
        self.left_out = left_out
        self.unreadable = unreadable

    def to_pandas(self, near: bool = False) -> "pd.DataFrame":
        """Return a table with a row for each file: its group, what a plan would do with it and why, the score and the class.

        With `near` it has instead a row for each pair that is likely a copy, or shows the same scene, and the number and the
        sharpest picture of their series.
        """
        import pandas as pd  # imported here: only tables need it

        if near:
            return pd.DataFrame(
                [match_values(match) for match in self.near],
                columns=[*MATCH_CELLS, *JUDGEMENT_CELLS, *SERIES_CELLS],
            )
        table = pd.DataFrame([plan_values(row) for group in self for row in group.rows], columns=COLUMNS)
        return table.assign(
            **{name: pd.to_numeric(table[name]) for name in ("score", "certainty", "sharpness")}
        )

    def show(self, groups: int = 20, laid: bool = False) -> PictureGrid:
        """Return the first groups as a grid of pictures, which a notebook shows; `laid`: also each laid on the first."""
        labelled = [
            [(row.file, f"{row.action}: {row.file.name}") for row in group.rows] for group in self[:groups]
        ]
        return PictureGrid([(f"{len(files)} copies", files) for files in labelled], laid)

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def find_copies(
    *folders: Place | Sequence[Place],
    references: Place | Sequence[Place] = (),
    keep: str | Sequence[str] = "largest",
    verify: int | None = None,
    views: bool | None = None,
    joined_with: Place | None = None,
) -> Copies:
    """Find the copies in folders, as `match.py --queries` does; no file is changed or written next to the pictures.

    Bars are shown in a terminal and in a notebook.
    It can be interrupted at any time (Ctrl-C, a notebook's stop button) and leaves nothing behind.

    Args:
        folders: Folders, archives or files, or lists of them.
        references: The same of pictures that may have been copied, and are kept; without any, copies are looked for among the
            pictures of `folders`.
        keep: Which file of a group to keep, as `match --keep`: "largest", "oldest" or "folder-order", and before it
            "path:PATTERN", such as `["path:originals/*", "oldest"]`.
        verify: Nearest pictures of each that are compared by local features; 0 for none, None for 10 of up to 50,000
            pictures.
        views: Whether crops, turns and the negative of pictures are searched with, too;
            None for with up to 50,000 pictures.
        joined_with: Another network next to the one that ships, `FILE.onnx` or `FILE.onnx@PIXELS`; None for none.

    Returns:
        Groups of copies, a list of lists of paths with `removable`; with `near`, `left_out`, `to_pandas()` and `show()`.

    Raises:
        UserError: A folder is missing or holds no picture, no path is given, or `keep` or `verify` is something else.
    """
    if verify is not None and not (type(verify) is int and verify >= 0):
        raise UserError(f"verify is {verify!r}: give a whole number of pictures, 0 for none, or None.")
    grouping = KeepSettings(*read_rules([keep] if isinstance(keep, str) else list(keep)))
    quiet = Output(quiet=True)
    shown = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    queries = [path for given in folders for path in _list_paths(given)]
    if not queries:
        raise UserError("no path is given. Give a folder: find_copies('photos').")
    with tempfile.TemporaryDirectory() as place, nullcontext() if shown else quiet.silence():
        folder = Path(place)
        pictures = find_pictures(queries, _list_paths(references), (), folder, quiet)
        extractor = _open(joined_with)
        rule = make_rule(extractor)
        settings = searching.SearchSettings(rule, grouping=grouping, verified=verify, views=views)
        found = searching.find_copies(extractor, settings, pictures, folder, quiet)
    matches = found.matches
    near = [match for match in matches.pairs if match.judgement and match.judgement.kind in NEAR]
    groups = found.grouped.copies if found.grouped else []
    return Copies(groups, near, found.left_out, matches.unreadable)


def rows_to_keep(dataset: Any, column: str | None = None, verify: int | None = None) -> list[int]:
    """Return the rows of a Hugging Face dataset, in order, without those whose picture is certainly a copy of one that stays.

    `dataset.select(rows_to_keep(dataset))` has no certain copies. Pictures are written to a temporary folder first, so that
    filtered and shuffled datasets are read as what they show.

    Args:
        dataset: A dataset with a column of images.
        column: The column's name; None for the first of this kind.
        verify: As for `find_copies`.

    Raises:
        UserError: There is no such column, or it holds no picture.
    """
    images = [name for name, feature in dataset.features.items() if type(feature).__name__ == "Image"]
    chosen = column or next(iter(images), None)
    if chosen not in images:
        raise UserError(
            f"the dataset has the columns {dataset.features}; expected {column or 'one'} with images."
        )
    feature = type(dataset.features[chosen])(decode=False)
    with tempfile.TemporaryDirectory() as place:
        for row, cells in enumerate(dataset.select_columns([chosen]).cast_column(chosen, feature)):
            picture = cells[chosen] or {}
            content = picture.get("bytes") or (
                Path(picture["path"]).read_bytes() if picture.get("path") else b""
            )
            Path(place, f"{row:09d}").write_bytes(content)
        groups = find_copies(place, verify=verify)
        removed = {int(path.name) for group in groups for path in group.removable}
    return [row for row in range(len(dataset)) if row not in removed]


def compare(first: Place, second: Place) -> comparing.Compared:
    """Compare two pictures by their vectors and local features, as `match.py A B` does; `.show()` is for notebooks.

    Raises:
        UserError: One of them cannot be read.
    """
    files = (_as_path(first), _as_path(second))
    rule = make_rule(open_shipped(None))
    return comparing.compare_bytes(*files) or comparing.compare(open_shipped(None), rule, *files)


def embed(pictures: Place | Sequence[Place], joined_with: Place | None = None) -> Float32s:
    """Return the vectors [n, 256] float32, of unit length, of pictures, or of one; near each other for copies.

    With `joined_with`, as in `find_copies`, they have the other network's dimensions besides.

    Raises:
        UserError: A picture cannot be decoded; the message names the first.
    """
    return comparing.extract_readable(_open(joined_with), _list_paths(pictures))


def _list_paths(given: Place | Sequence[Place]) -> list[Path]:
    places = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    return [_as_path(place) for place in places]


def _as_path(place: Place) -> Path:
    if not os.fspath(place):
        raise UserError("the path is empty. Give a file or a folder; '.' is the current folder.")
    return Path(place)


def _open(joined_with: Place | None) -> Extractor:
    return open_shipped(None if joined_with is None else _as_path(joined_with))


@cache
def open_shipped(joined_with: Path | None) -> Extractor:
    """Return the descriptor that ships, or it and another network."""
    shipped = checkpoint_extractor(SHIPPED)
    if joined_with is None:
        return shipped
    return join_extractors(shipped, checkpoint_extractor(joined_with))
