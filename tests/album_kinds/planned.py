"""Albums, and what is said of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from image_copies.matching.commands.interface import find_copies
from image_copies.matching.files.plan import list_companions, read_plan
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.deduplicate import main as deduplicate
from image_copies.pipeline.match import main as match
from tests.album_kinds.families import make_album
from tests.album_kinds.kind import Album


class Planned:
    """Albums of several kinds in one folder, and what the plan of a search removes of them, each with what stays instead.

    Args:
        folder: Gets album/, with a folder for each kind, and matches/.
        kinds: Their names.
        seed: Of the albums.
        options: Further ones of the search.
    """

    def __init__(self, folder: Path, kinds: Iterable[str], seed: int, *options: str) -> None:
        self.folder = folder
        self.albums: dict[str, Album] = {name: make_album(folder / "album", name, seed) for name in kinds}
        named = ["--queries", str(folder / "album"), "--checkpoint", str(SHIPPED), "--output", str(folder / "matches")]
        assert match([*named, "--quiet", *options]) == 0
        rows = [row for row in read_plan(folder / "matches" / "plan.csv") if row.action == "remove"]
        self.removed = {file: row.kept for row in rows for file in (row.file, *list_companions(row))}


def find_going(folder: Path, kinds: Iterable[str] = ("",)) -> dict[Path, Path]:
    """Return the files of folder/album, or of some kinds, that deduplicate.py lists to go, each with what it is a copy of."""
    parquet = pytest.importorskip("pyarrow.parquet")
    where = folder / "deduplicated"
    named = ["--input", *(str(folder / "album" / name) for name in kinds), "--output", str(where)]
    assert deduplicate([*named, "--checkpoint", str(SHIPPED), "--json"]) == 0
    table = parquet.read_table(where / "remove.parquet", columns=["id", "copy_of"])
    return {Path(row["id"]): Path(row["copy_of"]) for row in table.to_pylist()}


def find_removable(folder: Path, kinds: Iterable[str] = ("",), **options: Any) -> dict[Path, Path]:
    """Return the files of folder/album, or of some kinds, that `find_copies` names removable, each with what stays for it."""
    groups = find_copies([folder / "album" / name for name in kinds], **options)
    kept = {row.file: row.kept for group in groups for row in group.rows}
    return {file: kept[file] for group in groups for file in group.removable}
