"""Collections larger than memory allows: any Faiss index-factory string, with its recall against exact search measured."""

from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.files import whole_file

ADD_BLOCK = 65_536


@dataclass(frozen=True)
class Recall:
    """Share of the exact nearest references that the index finds among its own first `rank`, for ranks 1 and 10."""

    at_1: float
    at_10: float
    queries: int


def build_index(factory: str, training: NDArray[np.float32], references: NDArray[np.float32]) -> faiss.Index:
    """Train the index on training vectors only, then add the references [n, d]. UserError for a string that Faiss refuses, or
    whose index cannot number rows itself."""
    try:
        index = faiss.index_factory(references.shape[1], factory, faiss.METRIC_L2)
    except RuntimeError as error:
        raise UserError(f"Faiss knows no index {factory!r} ({error}). Examples: Flat; IVF4096,Flat; IVF4096,SQ8.") from error
    try:
        index.train(np.ascontiguousarray(training))
    except RuntimeError as error:
        raise UserError(f"{len(training)} training vectors cannot train the index {factory!r}: {error}") from error
    try:
        for start in range(0, len(references), ADD_BLOCK):
            index.add(np.ascontiguousarray(references[start : start + ADD_BLOCK]))
    except RuntimeError as error:
        raise UserError(f"the index {factory!r} cannot hold references by their row: {error}. Leave IDMap out of it.") from error
    return index


def save_index(path: Path, index: faiss.Index) -> None:
    """Write the index, whole or not at all; `load_index` maps it from disk instead of reading it."""
    with whole_file(path) as temporary:
        faiss.write_index(index, str(temporary))


def load_index(path: Path) -> faiss.Index:
    """An index whose inverted lists stay on disk."""
    if not path.is_file():
        raise UserError(f"{path}: no such index.")
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        raise UserError(f"{path} is not a Faiss index that can be read: {error}") from error


def measure_recall(
    index: faiss.Index, queries: NDArray[np.float32], references: NDArray[np.float32], sample: int = 1000, seed: int = 0
) -> Recall:
    """Recall of the index against exact search, on a sample of the queries."""
    chosen = np.random.default_rng(seed).permutation(len(queries))[:sample]
    asked = np.ascontiguousarray(queries[chosen])
    _, exact = faiss.knn(asked, np.ascontiguousarray(references), 1)
    _, found = index.search(asked, 10)
    hit = found == exact
    return Recall(float(hit[:, :1].any(axis=1).mean()), float(hit.any(axis=1).mean()), len(chosen))
