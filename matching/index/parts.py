"""The vectors of an index in memory-mapped files, each of a range of content numbers.

A file has a row for each number, zero where no readable content has it. Content numbers only increase: a file that is full is
never written again, the last one when the index has grown. What was added since is read from the database, and what was removed
is passed over. All files can be made again from the database.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.data.shards import uses_engine
from image_copies.matching.index.store import Store, count_changes, removed_contents, stored_vectors
from image_copies.submissions.vectors.files import StoredRows

CONTENTS_PER_PART = 500_000  # 488 MiB with 256 dimensions
MIN_NEW_CONTENTS = 10_000  # the last file is written once more contents than this were added
Mapped = np.memmap[Any, np.dtype[np.float32]]
Part = tuple[NDArray[np.bool_], Mapped]
# of the first row, and of the state of the database that it was made from
NAME = re.compile(r"vectors-(\d+)-(\d+)\.npy")


@dataclass(frozen=True)
class Parts:
    """The vectors float32 [n, d] of the contents numbered 1 … n.

    Attributes:
        files: Files of CONTENTS_PER_PART vectors each, mapped into memory; the last may have fewer.
        held: The vectors that no file has [m, d].
        searched: Which vectors are those of readable contents that have not been removed, bool [n].
    """

    files: tuple[Mapped, ...]
    held: NDArray[np.float32]
    searched: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return chosen rows, of any shape, as float32 [..., d]."""
        vectors = np.empty((*rows.shape, self.held.shape[1]), np.float32)
        filed = len(self.searched) - len(self.held)
        owners = np.where(rows < filed, rows // CONTENTS_PER_PART, len(self.files))
        for owner in np.unique(owners).tolist():
            chosen = owners == owner
            if owner < len(self.files):
                vectors[chosen] = self.files[owner][rows[chosen] - owner * CONTENTS_PER_PART]
            else:
                vectors[chosen] = self.held[rows[chosen] - filed]
        return vectors

    def rows(self) -> StoredRows:
        """Return the vectors that are searched; an engine's processes map the files themselves."""
        files = [Path(str(part.filename)) if uses_engine() else part for part in self.files]
        return StoredRows(partial(_read_rows, files, self.held), ~self.searched)


def _read_rows(
    files: Sequence[Path | NDArray[np.float32]], held: NDArray[np.float32], first: int, last: int
) -> NDArray[np.float32]:
    """Return the rows from the first number up to before the second."""
    found, start = list[NDArray[np.float32]](), 0
    for file in [*files, held]:
        part = map_part(file)[1] if isinstance(file, Path) else file
        rows = part[max(0, first - start) : max(0, last - start)]
        if len(rows):
            found.append(rows)
        start += len(part)
    return found[0] if len(found) == 1 else np.concatenate(found)


def map_part(path: Path) -> Part:
    """Open a file: which of its rows are vectors, bool [m], and the rows [m, d], mapped into memory.

    Raises:
        UserError: It is missing or damaged.
    """
    try:
        if not path.is_file():
            raise FileNotFoundError(path)
        with path.open("rb") as file:
            known: NDArray[np.bool_] = np.load(file)
            np.lib.format.read_magic(file)
            shape, _, _ = np.lib.format.read_array_header_1_0(file)
            return known, np.memmap(path.absolute(), np.float32, "r", file.tell(), shape)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path} is missing or damaged. All nodes must share the index, under the same path; if another process has changed "
            "it meanwhile, repeat the command."
        ) from error


def open_parts(store: Store) -> Parts:
    """Open the vectors of the store's present state; files that are missing or damaged are written again.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    last = store.database.execute("SELECT max(content) FROM contents").fetchone()[0] or 0
    parts, covered = list[Part](), 0
    for first in range(0, last, CONTENTS_PER_PART):
        part, end = _find_part(store, first), min(first + CONTENTS_PER_PART, last)
        covered = first if part is None else first + len(part[0])
        if end - covered > (MIN_NEW_CONTENTS if end == last else 0):
            part, covered = _write_part(store, first, end), end
        if part is not None:
            parts.append(part)
    known, held = _load_rows(store, covered, max(last, covered))
    files = tuple(rows for _, rows in parts)
    searched = np.concatenate([*(own for own, _ in parts), known])
    removed = removed_contents(store)
    searched[removed[removed <= len(searched)] - 1] = False
    stale = {path.absolute() for path in store.folder.glob("vectors-*")} - {
        Path(str(rows.filename)) for rows in files
    }
    for path in stale:  # of a later state, too: the database was brought back from a copy
        with suppress(OSError):  # Windows keeps what another process has mapped: the next search removes it
            path.unlink()
    return Parts(files, held, searched)


def is_intact(store: Store, path: Path) -> bool:
    """Whether a file has the vectors that the database has."""
    name = NAME.fullmatch(path.name)
    if name is None:
        return False
    try:
        (known, rows), first = map_part(path), int(name[1])
    except UserError:
        return False
    stored = stored_vectors(store, first, first + len(rows))
    places = ((numbers - 1 - first, vectors) for numbers, vectors in stored)
    return all(known[place].all() and np.array_equal(rows[place], vectors) for place, vectors in places)


def _find_part(store: Store, first: int) -> Part | None:
    """Return the intact file from a row on that has most rows, of this state or an earlier one; None where there is none."""
    now, found = count_changes(store), list[Part]()
    for path in store.folder.glob(f"vectors-{first}-*.npy"):
        name = NAME.fullmatch(path.name)
        with suppress(UserError):
            if name is not None and int(name[2]) <= now:
                found.append(map_part(path))
    return max(
        (part for part in found if part[1].shape[1:] == (store.dimensions,)),
        key=lambda part: len(part[0]),
        default=None,
    )


def _write_part(store: Store, first: int, last: int) -> Part:
    path = store.folder / f"vectors-{first}-{count_changes(store)}.npy"
    with whole_file(path) as temporary, temporary.open("wb") as file:
        for array in _load_rows(store, first, last):
            np.save(file, array)
    return map_part(path)


def _load_rows(store: Store, first: int, last: int) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Load rows from the database, those from the first number up to before the second, and which of them are vectors."""
    known, rows = np.zeros(last - first, bool), np.zeros((last - first, store.dimensions), np.float32)
    for numbers, vectors in stored_vectors(store, first, last):
        known[numbers - 1 - first], rows[numbers - 1 - first] = True, vectors
    return known, rows
