"""Nearest references in a stored index: a Faiss file made from the database, and what has changed since it was made.

The file's name holds the number of the state that it was made from and a digest of its bytes: a damaged one is not believed.
Contents that came later are read from the database, those that went are left out of the search; only when too much has changed
is the file made again.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.files import whole_file
from submissions.index.store import Store, changes, digest_of, recorded_from, removed_contents, stored_vectors
from submissions.search.exact import exact_distances

LEAST_CHANGED = 10_000  # contents added and removed before the file is made again,
CHANGED_SHARE = 0.1  # or this share of it, whichever is more
SPARE = 16  # nearest contents looked at beyond those asked for, where some were removed
FILE_NAME = re.compile(r"vectors-(\d+)-([0-9a-f]{16})\.faiss")


class Searchable(Protocol):
    """What `nearest` needs of an index; Faiss's own have it."""

    @property
    def ntotal(self) -> int:
        """Number of vectors."""

    def search(self, x: NDArray[np.float32], k: int) -> Any:
        """Return squared distances and numbers, both [n, k]."""

    def reconstruct_batch(self, key: NDArray[np.int64]) -> Any:
        """Return the vectors [m, d] of these numbers."""


@dataclass(frozen=True)
class Nearest:
    """What is nearest to each query.

    Attributes:
        contents: numbers [n, k], −1 where there are fewer.
        distances: squared distances [n, k] float64.
    """

    contents: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True)
class SearchIndex:
    """The Faiss file of an earlier state with what has changed since.

    Attributes:
        base: the file, mapped from disk.
        gone: numbers of its contents that have been removed, in order.
        fresh: contents that were added since.
    """

    base: faiss.Index
    gone: NDArray[np.int64]
    fresh: faiss.Index

    @property
    def ntotal(self) -> int:
        """Number of contents."""
        return int(self.base.ntotal - len(self.gone) + self.fresh.ntotal)

    def search(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return squared distances and numbers of the k nearest contents, both [n, k]."""
        if not len(self.gone) and not self.fresh.ntotal:
            return self.base.search(x, k)
        parts = [self._search_base(x, k), self.fresh.search(x, k)]
        distances, numbers = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        distances = np.where(numbers < 0, np.inf, distances)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distances, order, 1), np.take_along_axis(numbers, order, 1)

    def reconstruct_batch(self, key: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors [m, d] of these contents."""
        old = key <= self.last()
        vectors = np.empty((len(key), self.base.d), np.float32)
        if old.any():
            vectors[old] = self.base.reconstruct_batch(key[old])
        if not old.all():
            vectors[~old] = self.fresh.reconstruct_batch(key[~old])
        return vectors

    def numbers(self) -> NDArray[np.int64]:
        """Return all content numbers, in order."""
        kept = np.setdiff1d(_numbers(self.base), self.gone, assume_unique=True)
        return np.concatenate([kept, _numbers(self.fresh)])

    def last(self) -> int:
        """Return the highest number in the file; contents added later have higher ones."""
        return int(_numbers(self.base)[-1]) if self.base.ntotal else -1

    def _search_base(self, x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if not len(self.gone):
            return self.base.search(x, k)
        depth = min(k + SPARE, self.base.ntotal)
        distances, numbers = self.base.search(x, depth)
        left_out = np.isin(numbers, self.gone)
        distances, numbers = np.where(left_out, np.inf, distances), np.where(left_out, -1, numbers)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        distances, numbers = np.take_along_axis(distances, order, 1), np.take_along_axis(numbers, order, 1)
        short = (numbers < 0).any(axis=1)
        if short.any() and depth < self.base.ntotal:
            removed = faiss.IDSelectorBatch(self.gone)  # kept in variables: Faiss holds bare pointers to them
            there = faiss.IDSelectorNot(removed)
            parameters = faiss.SearchParameters(sel=there)  # type: ignore[call-arg]  # faiss's types lack it
            distances[short], numbers[short] = self.base.search(x[short], numbers.shape[1], params=parameters)
        return distances, numbers


def open_search(store: Store) -> SearchIndex:
    """Open the index over the contents of the store's present state.

    The newest whole Faiss file is used together with what has changed since; it is made again where there is none, or too much
    has changed.
    """
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        index = _opened(store)
        if index is None:
            base = _built(store.dimensions, stored_vectors(store))
            _keep(base, store.folder, f"vectors-{changes(store)}")
            index = SearchIndex(base, np.zeros(0, np.int64), _built(store.dimensions, ()))
        return index
    finally:
        store.database.execute("COMMIT")


def _opened(store: Store) -> SearchIndex | None:
    base = _newest(store)
    if base is None or not base.ntotal:
        return None
    numbers = _numbers(base)
    gone = np.intersect1d(removed_contents(store), numbers)
    allowed = max(LEAST_CHANGED, CHANGED_SHARE * base.ntotal)
    if len(gone) > allowed or len(gone) == len(numbers) or base.d != store.dimensions:
        return None
    fresh = _built(store.dimensions, stored_vectors(store, after=int(numbers[-1])))
    return SearchIndex(base, gone, fresh) if len(gone) + fresh.ntotal <= allowed else None


def nearest(index: Searchable, queries: NDArray[np.float32], count: int) -> Nearest:
    """Return the `count` nearest contents of each query [n, d] with exact distances, nearest first."""
    depth = min(count, index.ntotal)
    if not depth or not len(queries):
        return Nearest(np.full((len(queries), 0), -1), np.zeros((len(queries), 0)))
    _, numbers = index.search(np.ascontiguousarray(queries, np.float32), depth)
    if (numbers < 0).any():
        raise UserError("the index or a query holds vectors that are not finite: add its images again, with a whole network.")
    unique, places = np.unique(numbers, return_inverse=True)
    vectors = vectors_of(index, unique)
    rows = np.repeat(np.arange(len(queries)), depth)
    distances = exact_distances(queries, vectors, rows, places.ravel()).reshape(numbers.shape)
    order = np.argsort(distances, axis=1, kind="stable")
    return Nearest(np.take_along_axis(numbers, order, 1), np.take_along_axis(distances, order, 1))


def content_numbers(index: SearchIndex) -> NDArray[np.int64]:
    """Return all content numbers of the index, in order."""
    return index.numbers()


def vectors_of(index: Searchable, contents: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors [n, d] of these contents."""
    return index.reconstruct_batch(contents)  # type: ignore[no-any-return]  # Faiss's are untyped


def _numbers(index: faiss.Index) -> NDArray[np.int64]:
    return np.sort(faiss.vector_to_array(index.id_map))  # type: ignore[attr-defined]  # faiss's types lack it


def _newest(store: Store) -> faiss.Index | None:
    """The newest whole file, mapped from disk, of a state since which removals have been recorded."""
    named = [(path, match) for path in store.folder.glob("vectors-*.faiss") if (match := FILE_NAME.fullmatch(path.name))]
    states = [(int(match[1]), path) for path, match in named]
    for state, path in sorted(states, reverse=True):
        if not recorded_from(store) <= state <= changes(store):
            continue
        try:
            if path.name == _name(f"vectors-{state}", digest_of(path)):
                return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (UserError, RuntimeError):
            continue  # another process has removed it, having made a newer one: the database has everything
    return None


def _keep(index: faiss.Index, folder: Path, state: str) -> None:
    """Write the index, and remove the files of other states and damaged ones."""
    content = faiss.serialize_index(index)
    path = folder / _name(state, hashlib.sha256(content.data).digest())
    with whole_file(path) as temporary:
        temporary.write_bytes(content.data)  # not tofile, which does not say that the disk is full
    for old in folder.glob("vectors-*.faiss"):
        if old != path:
            old.unlink(missing_ok=True)


def _name(state: str, digest: bytes) -> str:
    return f"{state}-{digest.hex()[:16]}.faiss"


def _built(dimensions: int, blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]]) -> faiss.Index:
    index = faiss.IndexIDMap2(faiss.IndexFlatL2(dimensions))
    for numbers, vectors in blocks:
        index.add_with_ids(vectors, numbers)
    return index
