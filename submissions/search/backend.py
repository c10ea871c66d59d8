"""Where nearest neighbours are computed: on the CPU by NumPy and Faiss, or by a backend that the caller supplies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from image_copies.data.process import process_rank_on_machine

Metric = Literal["cosine", "distance"]  # inner product, highest first; squared distance, lowest first
Rows = NDArray[np.int64]
OUT_OF_MEMORY_PHRASES = ("out of memory", "cudamalloc", "bad_alloc")  # in Faiss's errors, whatever runs out


class SearchBackend(Protocol):
    """Searches elsewhere, for example on a GPU; each method returns None where its memory does not suffice."""

    def candidates(self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int) -> tuple[Rows, Rows] | None:
        """Find the `count` nearest pairs of queries [n, d] and references [m, d], all that tie with the last, and perhaps more.

        Row numbers of the queries and of the references, int64 [k] each; each pair once, in any order.
        """

    def nearest(
        self, queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
    ) -> tuple[NDArray[np.float32], Rows] | None:
        """Find the `count` ≤ m references [m, d] nearest to each query [n, d]; metric and result are those of `search_block`."""


_handed_in: list[SearchBackend] = []


@contextmanager
def use_backend(backend: SearchBackend) -> Iterator[None]:
    """Search with `backend` inside the `with` block, in all threads."""
    _handed_in.append(backend)
    try:
        yield
    finally:
        _handed_in.remove(backend)


def find_candidates(queries: NDArray[np.float32], references: NDArray[np.float32], count: int) -> tuple[Rows, Rows] | None:
    """Find what `SearchBackend.candidates` does, for queries [n, d] and references [m, d], with the backend in use, or None."""
    return _handed_in[-1].candidates(queries, references, count) if _handed_in else None


def search_block(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Find the `count` references [m, d] nearest to each query [n, d], with the backend in use or with Faiss.

    Faiss searches on the GPU of this process if its build can, unless a backend has found the GPU's memory too small; where its
    own memory there does not suffice, it searches on the CPU. Returned are inner products ("cosine", of unit vectors), highest
    first, or squared Euclidean distances ("distance"), lowest first, float32 [n, k], and row numbers of the references [n, k].
    """
    queries, references = np.ascontiguousarray(queries), np.ascontiguousarray(references)
    kind = faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2
    if _handed_in:
        found = _handed_in[-1].nearest(queries, references, count, metric)
    else:
        found = _find_on_gpu(queries, references, count, kind)
    if found is None:
        values, rows = faiss.knn(queries, references, count, metric=kind)
        return values, rows
    return found


def find_own_gpu() -> int | None:
    """Return the number of this process's GPU for Faiss; None where its build can use none, or it sees none."""
    gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    return process_rank_on_machine() % gpus if gpus else None


def _find_on_gpu(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, kind: int
) -> tuple[NDArray[np.float32], Rows] | None:
    """Search with Faiss on this process's GPU; None without such a build or GPU, or if memory runs out."""
    own = find_own_gpu()
    if own is None:
        return None
    try:
        values, rows = faiss.knn_gpu(faiss.StandardGpuResources(), queries, references, count, metric=kind, device=own)
        return values, rows
    except RuntimeError as error:
        if not any(words in str(error).lower() for words in OUT_OF_MEMORY_PHRASES):
            raise
        return None
