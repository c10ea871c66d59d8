"""Nearest references in a stored index: a Faiss file made from the database, for one state of it.

The file's name holds the state's number and a digest of its bytes: a damaged one is not believed.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.files import whole_file
from submissions.index.store import Store, changes, digest_of, stored_vectors
from submissions.search.exact import exact_distances


@dataclass(frozen=True)
class Nearest:
    """For each query its nearest contents: numbers [n, k], −1 where there are fewer, and squared distances [n, k] float64."""

    contents: NDArray[np.int64]
    distances: NDArray[np.float64]


def open_search(store: Store) -> faiss.Index:
    """An index over content numbers: the Faiss file of the store's state; where it is missing or cannot be read, it is made."""
    store.database.execute("BEGIN")  # one state for the number of changes and the vectors
    try:
        state = f"vectors-{changes(store)}"
        index = _read(store.folder, state)
        if index is None:
            index = _built(store)
            _keep(index, store.folder, state)
        return index
    finally:
        store.database.execute("COMMIT")


def nearest(index: faiss.Index, queries: NDArray[np.float32], count: int) -> Nearest:
    """The `count` nearest contents of each query [n, d], exact distances, nearest first."""
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


def content_numbers(index: faiss.Index) -> NDArray[np.int64]:
    """All content numbers of the index, in order."""
    return np.sort(faiss.vector_to_array(index.id_map))  # type: ignore[attr-defined]  # faiss's types lack it


def vectors_of(index: faiss.Index, contents: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors [n, d] of these contents."""
    return index.reconstruct_batch(contents)


def _read(folder: Path, state: str) -> faiss.Index | None:
    """The kept index of this state, mapped from disk; None where there is none that is whole."""
    for path in folder.glob(f"{state}-*.faiss"):
        try:
            if path.name == _name(state, digest_of(path)):
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


def _built(store: Store) -> faiss.Index:
    index = faiss.IndexIDMap2(faiss.IndexFlatL2(store.dimensions))
    for numbers, vectors in stored_vectors(store):
        index.add_with_ids(vectors, numbers)
    return index
