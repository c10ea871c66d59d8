"""What a reader says when a folder is not what it expects, and the two forms that readers return."""

from dataclasses import dataclass
from pathlib import Path

from data.errors import UserError
from data.images import ImageSet
from data.labels import LabelledImages


@dataclass(frozen=True)
class TrainTest:
    """A data set with classes; in metric learning's sets no class is in both parts."""

    train: LabelledImages
    test: LabelledImages


@dataclass(frozen=True)
class RetrievalSet:
    """Images to search in and, for each query, rows of `images`: the query's own, those that answer it, those to ignore.

    `ignored` holds the query itself and junk: both are taken out of the ranking before it is scored.
    """

    images: ImageSet
    queries: list[int]
    relevant: list[list[int]]
    ignored: list[list[int]]


def expect(root: Path, form: str, *names: str) -> None:
    """UserError unless `root` holds all `names` (folders with a trailing slash); says what is missing and the whole `form`."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder. Name the root of the unpacked archive: {form}.")
    missing = [name for name in names if not ((root / name).is_dir() if name.endswith("/") else (root / name).is_file())]
    if missing:
        holds = ", ".join(sorted(path.name + "/" * path.is_dir() for path in root.iterdir())[:8]) or "nothing"
        raise UserError(f"{root} lacks {', '.join(missing)} (it holds {holds}). Name the root of the unpacked archive: {form}.")


def rows_of(path: Path, columns: int, header: str = "") -> list[list[str]]:
    """The lines of a table whose columns are parted by spaces, below the line `header`.

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


def existing(root: Path, names: list[str], source: Path) -> ImageSet:
    """The images `names` (paths below `root`), which are their ids; UserError when files that `source` lists are not there."""
    paths = [root / name for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{source} lists {len(names)} images, {len(missing)} of them are not there, the first: {missing[0]}.")
    return ImageSet(names, paths)
