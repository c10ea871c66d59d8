"""Nearest references in a stored index: a Faiss file made from the database, for one state of it."""

import time
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from data.files import whole_file
from submissions.index.store import Store, changes, stored_vectors
from submissions.search import exact_distances

LEFT_BEHIND = 3600.0  # seconds after which a half-written file is nobody's any more


@dataclass(frozen=True)
class Nearest:
    """For each query its nearest contents: numbers [n, k], −1 where there are fewer, and squared distances [n, k] float64."""

    contents: NDArray[np.int64]
    distances: NDArray[np.float64]


def open_search(store: Store) -> faiss.Index:
    """An index over content numbers: the Faiss file of the store's state; where it is missing or cannot be read, it is made."""
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        path = store.folder / f"vectors-{changes(store)}.faiss"
        index = _read(path)
        if index is None:
            index = _built(store)
            with whole_file(path) as temporary:
                faiss.write_index(index, str(temporary))
            _clear(store.folder, path)
        return index
    finally:
        store.database.execute("COMMIT")


def nearest(index: faiss.Index, queries: NDArray[np.float32], count: int) -> Nearest:
    """The `count` nearest contents of each query [n, d], exact distances, nearest first."""
    depth = min(count, index.ntotal)
    if not depth or not len(queries):
        return Nearest(np.full((len(queries), 0), -1), np.zeros((len(queries), 0)))
    _, numbers = index.search(np.ascontiguousarray(queries, np.float32), depth)
    unique, places = np.unique(numbers, return_inverse=True)
    vectors = vectors_of(index, unique)
    rows = np.repeat(np.arange(len(queries)), depth)
    distances = exact_distances(queries, vectors, rows, places.ravel()).reshape(numbers.shape)
    order = np.argsort(distances, axis=1, kind="stable")
    return Nearest(np.take_along_axis(numbers, order, 1), np.take_along_axis(distances, order, 1))


def content_numbers(index: faiss.Index) -> NDArray[np.int64]:
    """All content numbers of the index, in order."""
    return np.sort(faiss.vector_to_array(index.id_map))  # type: ignore[attr-defined]


def vectors_of(index: faiss.Index, contents: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors [n, d] of these contents."""
    return index.reconstruct_batch(contents)


def _read(path: Path) -> faiss.Index | None:
    if not path.is_file():
        return None
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError:
        return None  # another process has made a newer one, or the file is damaged: the database has everything


def _clear(folder: Path, current: Path) -> None:
    """Remove the files of older states, and what killed processes left half-written."""
    for old in folder.glob("vectors-*.faiss"):
        if old != current:
            old.unlink(missing_ok=True)
    for left in folder.glob(".vectors-*.part*"):
        if left.stat().st_mtime < time.time() - LEFT_BEHIND:
            left.unlink(missing_ok=True)


def _built(store: Store) -> faiss.Index:
    index = faiss.IndexIDMap2(faiss.IndexFlatL2(store.dimensions))
    for numbers, vectors in stored_vectors(store):
        index.add_with_ids(vectors, numbers)
    return index
