"""What all readers share: the two forms that they return, and errors about folders that are not what is expected."""

from dataclasses import dataclass
from pathlib import Path

from data.errors import UserError
from data.images import ImageSet
from data.labels import LabelledImages


@dataclass(frozen=True)
class TrainTest:
    """A data set with classes; in metric learning no class is in both parts.

    Attributes:
        train: images to learn from.
        test: images to measure with.
    """

    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True)
class RetrievalSet:
    """Images to search in, with queries among them.

    Attributes:
        images: all images.
        queries: rows of `images`.
        relevant: for each query, the rows that answer it.
        ignored: for each query, the rows taken out of its ranking before it is scored: the query itself and junk.
    """

    images: ImageSet
    queries: list[int]
    relevant: list[list[int]]
    ignored: list[list[int]]


def require_names(root: Path, form: str, *names: str) -> None:
    """Check that `root` holds all `names`; a name with a trailing slash is a folder.

    Args:
        root: the folder.
        form: the layout that the message describes.
        names: what must be in it.

    Raises:
        UserError: something is missing.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Name the root of the unpacked archive: {form}.")
    missing = [name for name in names if not ((root / name).is_dir() if name.endswith("/") else (root / name).is_file())]
    if missing:
        holds = ", ".join(sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:8]) or "nothing"
        raise UserError(f"{root} lacks {', '.join(missing)} (it holds {holds}). Name the root of the unpacked archive: {form}.")


def read_rows(path: Path, columns: int, header: str = "") -> list[list[str]]:
    """Read a table whose columns are separated by spaces, below the line `header`.

    Raises:
        UserError: another first line, a line with another number of columns, no row.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        parts = line.split()
        if header and number == 1 and parts != header.split():
            raise UserError(f"{path} does not begin with the line {header!r} but with {line[:60]!r}.")
        if not parts or (header and number == 1):
            continue
        if len(parts) != columns:
            raise UserError(f"{path}, line {number} has {len(parts)} columns; expected {columns}: {line[:60]!r}.")
        rows.append(parts)
    if not rows:
        raise UserError(f"{path} holds no row.")
    return rows


def require_images(root: Path, names: list[str], source: Path) -> ImageSet:
    """The images `names`, paths below `root` that become their ids.

    Raises:
        UserError: files that `source` lists do not exist.
    """
    paths = [root / name for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{source} lists {len(names)} images, {len(missing)} of them do not exist, the first is {missing[0]}.")
    return ImageSet(names, paths)
