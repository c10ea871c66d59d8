"""What all readers share: the two result types, and checks of a folder's layout."""

from dataclasses import dataclass
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages


@dataclass(frozen=True)
class TrainTest:
    """A labelled data set in two parts; in metric learning their classes are disjoint."""

    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True)
class RetrievalSet:
    """A retrieval benchmark."""

    images: ImageSet
    queries: list[int]  # rows of the queries in `images`, 0…n−1
    relevant: list[list[int]]  # for each query, the rows of its correct answers
    ignored: list[list[int]]  # for each query, the rows removed from its ranking before scoring, such as the query itself


def require_names(root: Path, form: str, *names: str) -> None:
    """Check that `root` contains all `names`, those of folders ending in a slash; `form` is the expected layout.

    Raises:
        UserError: `root` is not a folder, or something is missing.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Name the root of the unpacked archive: {form}.")
    missing = [name for name in names if not ((root / name).is_dir() if name.endswith("/") else (root / name).is_file())]
    if missing:
        holds = ", ".join(sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:8]) or "nothing"
        raise UserError(f"{root} lacks {', '.join(missing)} (it holds {holds}). Name the root of the unpacked archive: {form}.")


def read_columns(path: Path, columns: int, header: str = "") -> list[list[str]]:
    """Read a table with so many whitespace-separated columns, below a header unless that is "".

    Raises:
        UserError: the first line is another one, a line has another number of columns, or there are no rows.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        parts = line.split()
        if header and number == 1 and parts != header.split():
            raise UserError(f"{path} does not begin with the line {header!r} but with {line[:60]!r}. Unpack the archive again.")
        if not parts or (header and number == 1):
            continue
        if len(parts) != columns:
            raise UserError(f"{path}, line {number} has {len(parts)} columns; expected {columns}: {line[:60]!r}.")
        rows.append(parts)
    if not rows:
        raise UserError(f"{path} contains no rows. Unpack the archive again.")
    return rows


def require_images(root: Path, names: list[str], source: Path) -> ImageSet:
    """Return the images at the paths `names` below `root`, which `source` lists; the names become the ids.

    Raises:
        UserError: some of the files do not exist.
    """
    paths = [root / name for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{source} lists {len(names)} images, {len(missing)} of them do not exist; the first is {missing[0]}.")
    return ImageSet(names, paths)
