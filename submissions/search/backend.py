"""Where nearest neighbours are computed: on the CPU by NumPy and Faiss, or by a backend that the caller supplies.

Few pairs are compared by NumPy, which is as fast and need not be imported; so are all where Faiss is not installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from image_copies.data.process import process_rank_on_machine

Metric = Literal["cosine", "distance"]  # inner product, highest first; squared distance, lowest first
Rows = NDArray[np.int64]
MIN_PAIRS_FOR_FAISS = 2**22  # pairs of vectors, below which importing Faiss takes longer than the products
PRODUCTS_PER_BLOCK = 2**24  # that NumPy holds at once, float32
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
    found: tuple[NDArray[np.float32], Rows] | None = None
    if _handed_in:
        found = _handed_in[-1].nearest(queries, references, count, metric)
    elif _is_worth_faiss(queries, references):
        found = _find_on_gpu(queries, references, count, metric)
    return search_on_cpu(queries, references, count, metric) if found is None else found


def search_on_cpu(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Do what `search_block` does with queries [n, d] and references [m, d] on the CPU: many pairs by Faiss, few by NumPy."""
    if not _is_worth_faiss(queries, references):
        return _search_by_numpy(queries, references, count, metric)
    import faiss

    values, rows = faiss.knn(queries, references, count, metric=_kind(metric))
    return values, rows


def _is_worth_faiss(queries: NDArray[np.float32], references: NDArray[np.float32]) -> bool:
    return len(queries) * len(references) >= MIN_PAIRS_FOR_FAISS and find_spec("faiss") is not None


def _kind(metric: Metric) -> int:
    import faiss

    kind: int = faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2
    return kind


def _search_by_numpy(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Compute all products, block by block; as in Faiss, row −1 stands for a value that is not finite."""
    count = min(count, len(references))
    values, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
    squares = np.einsum("md,md->m", references, references)
    step = max(1, PRODUCTS_PER_BLOCK // max(1, len(references)))
    for first in range(0, len(queries), step):
        asked = queries[first : first + step]
        away = -(asked @ references.T)  # what is smallest is nearest
        if metric == "distance":
            away = np.maximum(np.einsum("nd,nd->n", asked, asked)[:, None] + squares + 2 * away, 0)
        near = np.argpartition(away, count - 1, axis=1)[:, :count] if count < len(references) else _all_rows(away)
        lengths = np.take_along_axis(away, near, 1)
        order = np.lexsort((near, lengths), axis=1)
        near, lengths = np.take_along_axis(near, order, 1), np.take_along_axis(lengths, order, 1)
        rows[first : first + step] = np.where(np.isfinite(lengths), near, -1)
        values[first : first + step] = lengths if metric == "distance" else -lengths
    return values, rows


def _all_rows(table: NDArray[np.float32]) -> Rows:
    return np.broadcast_to(np.arange(table.shape[1]), table.shape)


def find_own_gpu() -> int | None:
    """Return the number of this process's GPU for Faiss; None where its build can use none, or it sees none."""
    import faiss

    gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    return process_rank_on_machine() % gpus if gpus else None


def _find_on_gpu(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows] | None:
    """Search with Faiss on this process's GPU; None without such a build or GPU, or if memory runs out."""
    import faiss

    own = find_own_gpu()
    if own is None:
        return None
    try:
        values, rows = faiss.knn_gpu(faiss.StandardGpuResources(), queries, references, count, metric=_kind(metric), device=own)
        return values, rows
    except RuntimeError as error:
        if not any(words in str(error).lower() for words in OUT_OF_MEMORY_PHRASES):
            raise
        return None
