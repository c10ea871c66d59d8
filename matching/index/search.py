"""The nearest references in a stored index: by exact search or, in a large index, among candidates found by their codes.

Distances are exact in either case; an approximate search may only miss neighbours that are not among the candidates.

Vectors lie in memory-mapped files, each of a range of content numbers, with a row for each, zero where no readable content has
it. Numbers only increase: a file that is full is never written again, the last one when the index has grown. What was added since
is read from the database. All files can be made again from it.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file
from image_copies.submissions.search import neighbours
from image_copies.submissions.search.neighbours import Nearest, Rows, rank_exactly
from image_copies.submissions.vectors.files import StoredRows

from ..threshold import Floats, choose_sample
from . import codes as coding
from .store import VECTOR_FILES, Store, count_changes, highest_content, readable_contents, stored_vectors

MIN_CANDIDATES = 100  # candidates per query whose exact distances are computed: at least this many,
CANDIDATES_PER_NEIGHBOUR = 10  # and at least this many for each neighbour asked for
CONTENTS_PER_FILE = 500_000  # 488 MiB with 256 dimensions
MIN_NEW_CONTENTS = 10_000  # the last file is written once more contents than this were added
# of the first row, and of the state of the database that it was made from
NAME = re.compile(r"vectors-(\d+)-(\d+)\.npy")


@dataclass(frozen=True)
class Neighbours:
    """The searchable vectors of one state of a store, of the contents numbered 1 … n.

    Attributes:
        parts: Their rows, float32 [m, d] each: those of files, mapped into memory, and last those that no file has.
        searched: Which of the n are vectors of readable contents that have not been removed, bool [n].
        codes: The Faiss index of the codes of the first of them; None to compare every query with all.
    """

    parts: tuple[Floats, ...]
    searched: NDArray[np.bool_]
    codes: Any = None

    @cached_property
    def _rows(self) -> Rows:
        return np.flatnonzero(self.searched)

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return len(self._rows)

    @property
    def exact(self) -> bool:
        """Whether every content is compared with every query."""
        return self.codes is None

    def nearest(self, queries: Floats, count: int, near: bool = False) -> Nearest:
        """Find the nearest contents of each query, float32 [n, d], with exact distances: `count`, or all of fewer.

        Rows are the numbers of the contents. With `near` only copies within the reporting threshold are sought, which few lists
        of a large index hold.

        Raises:
            UserError: A query is not finite.
        """
        queries, count = np.ascontiguousarray(queries, np.float32), min(count, self.ntotal)
        if not np.isfinite(queries).all():
            raise UserError(
                "a query's vector is not finite (NaN or infinite): the checkpoint is probably damaged."
            )
        if self.codes is None or not count:
            stored = StoredRows(partial(_read_rows, self.parts), ~self.searched)
            found = neighbours.Neighbours(stored).nearest(queries, count)
            return Nearest(found.values, self._rows[found.rows] + 1)
        ranked = rank_exactly(queries, self.take, self._find_candidates(queries, count, near), count)
        few = np.flatnonzero(ranked.rows[:, -1] < 0)  # the lists searched for these queries hold fewer
        distances, contents = ranked.values, ranked.rows + 1
        if len(few):
            exact = replace(self, codes=None).nearest(queries[few], count)
            distances[few], contents[few] = exact.values, exact.rows
        return Nearest(distances, contents)

    def take(self, rows: Rows) -> Floats:
        """Return chosen rows, of any shape, as float32 [..., d]."""
        vectors = np.empty((*rows.shape, self.parts[-1].shape[1]), np.float32)
        starts = np.cumsum([0, *map(len, self.parts[:-1])])
        owners = np.searchsorted(starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            chosen = owners == owner
            vectors[chosen] = self.parts[owner][rows[chosen] - starts[owner]]
        return vectors

    def sample(self) -> Floats:
        """Return the vectors [m, d] of a sample of the contents, to which a threshold is fitted."""
        return self.take(self._rows[choose_sample(self.ntotal)])

    def _find_candidates(self, queries: Floats, count: int, near: bool) -> Rows:
        """Return rows [n, m] by the codes, and the nearest of those that have no codes; −1 for none."""
        depth = max(MIN_CANDIDATES, CANDIDATES_PER_NEIGHBOUR * count)
        coded = coding.search_codes(self.codes, queries, depth, near)
        candidates = np.where((coded >= 0) & self.searched[coded], coded, -1)
        fresh = self._rows[np.searchsorted(self._rows, self.codes.ntotal) :]
        nearest = neighbours.Neighbours(self.take(fresh)).nearest(queries, count).rows
        return np.concatenate([candidates, fresh[nearest]], axis=1)


def _read_rows(parts: tuple[Floats, ...], first: int, last: int) -> Floats:
    """Return the rows from the first number up to before the second."""
    found, start = list[Floats](), 0
    for part in parts:
        rows = part[max(0, first - start) : max(0, last - start)]
        if len(rows):
            found.append(rows)
        start += len(part)
    return found[0] if len(found) == 1 else np.concatenate(found)


def open_search(store: Store, exact: bool = False) -> Neighbours:
    """Open the vectors, and in a large index the codes unless the search is to be exact; missing files are written first.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        searched = np.zeros(highest_content(store), bool)
        searched[readable_contents(store) - 1] = True
        found = Neighbours(_open_parts(store, len(searched)), searched)
        if exact or found.ntotal < coding.MIN_CODED_CONTENTS or find_spec("faiss") is None:
            return found
        return replace(found, codes=coding.open_codes(store, searched, found.take))
    finally:
        if store.database.in_transaction:
            store.database.execute("COMMIT")


def _open_parts(store: Store, count: int) -> tuple[Floats, ...]:
    """Open the rows of so many contents; files that are missing or damaged are written again."""
    parts = list[Floats]()
    covered = 0
    kept = set[Path]()
    for first in range(0, count, CONTENTS_PER_FILE):
        end = min(first + CONTENTS_PER_FILE, count)
        path, rows = _find_file(store, first, end - first)
        if end - first - len(rows) > (MIN_NEW_CONTENTS if end == count else 0):
            path = store.folder / f"vectors-{first}-{count_changes(store)}.npy"
            rows = _load_rows(store, first, end)
            with whole_file(path) as temporary, temporary.open("wb") as file:
                np.save(file, rows)
            with suppress(OSError):  # a search of an earlier state, in another process, may have removed it
                rows = np.load(path, mmap_mode="r")
        parts.append(rows)
        covered = first + len(rows)
        kept.add(path)
    for path in (
        set(store.folder.glob(VECTOR_FILES)) - kept
    ):  # of a later state, too: the database was brought back
        with suppress(OSError):  # Windows keeps what another process has mapped: the next search removes it
            path.unlink()
    return *parts, _load_rows(store, covered, count)


def _find_file(store: Store, first: int, most: int) -> tuple[Path, Floats]:
    """Return the latest intact file of rows from the first on, of this state or an earlier one, and so many at most.

    Where there is none, the rows are none.
    """
    now = count_changes(store)
    named = [(path, NAME.fullmatch(path.name)) for path in store.folder.glob(f"vectors-{first}-*.npy")]
    known = [(int(name[2]), path) for path, name in named if name and int(name[2]) <= now and path.is_file()]
    for _, path in sorted(known, reverse=True):
        with suppress(OSError, ValueError, EOFError):  # it is damaged
            rows: Floats = np.load(path, mmap_mode="r")
            if rows.dtype == np.float32 and rows.shape[1:] == (store.dimensions,) and len(rows) <= most:
                return path, rows
    return store.folder, np.zeros((0, store.dimensions), np.float32)


def _load_rows(store: Store, first: int, last: int) -> Floats:
    """Load rows from the database, those from the first number up to before the second; zeros where there is no vector."""
    rows = np.zeros((last - first, store.dimensions), np.float32)
    for numbers, vectors in stored_vectors(store, first, last):
        rows[numbers - 1 - first] = vectors
    return rows
