"""Albums, and what is said of them."""

from collections.abc import Iterable
from pathlib import Path

from image_copies.matching.files.plan import list_companions, read_plan
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.match import main as match
from tests.album_kinds.kind import Album, make_album


class Planned:
    """Albums of several kinds in one folder, and what the plan of a search removes of them, each with what stays instead.

    Args:
        folder: Gets album/, with a folder for each kind, and matches/.
        kinds: Their names.
        seed: Of the albums.
        options: Further ones of the search.
    """

    def __init__(self, folder: Path, kinds: Iterable[str], seed: int, *options: str) -> None:
        self.albums: dict[str, Album] = {name: make_album(folder / "album", name, seed) for name in kinds}
        named = ["--queries", str(folder / "album"), "--checkpoint", str(SHIPPED), "--output", str(folder / "matches")]
        assert match([*named, "--quiet", *options]) == 0
        rows = [row for row in read_plan(folder / "matches" / "plan.csv") if row.action == "remove"]
        self.removed = {file: row.kept for row in rows for file in (row.file, *list_companions(row))}
