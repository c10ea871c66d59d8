"""Where nearest neighbours are computed: on the CPU by NumPy and Faiss, or by a backend that the caller supplies.

Few pairs are compared by NumPy, which is as fast and need not be imported; so are all where Faiss is not installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Metric = Literal["cosine", "distance"]  # inner product, highest first; squared distance, lowest first
Rows = NDArray[np.int64]
Near = tuple[Rows, Rows, NDArray[np.float32]]
MIN_PAIRS_FOR_FAISS = 2**22  # pairs of vectors, below which importing Faiss takes longer than the products
PRODUCTS_PER_BLOCK = 2**24  # that NumPy holds at once, float32


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

    def hold(self, vectors: NDArray[np.float16]) -> Any:
        """Move vectors [n, d] to where they are searched."""

    def near(self, queries: Any, references: Any, asked: Rows, compared: Rows, limit: float) -> Near | None:
        """Find which of some queries and references, as `hold` returned them, are within a squared distance of each other.

        `asked` [n] and `compared` [m] are rows. Returned are places in these, int64 [k] each, those of `asked` ascending, and
        squared distances float32 [k].
        """


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
    """Find the `count` references [m, d] nearest to each query [n, d], with the backend in use or on the CPU.

    Returned are inner products ("cosine", of unit vectors), highest
    first, or squared Euclidean distances ("distance"), lowest first, float32 [n, k], and row numbers of the references [n, k].
    """
    queries, references = np.ascontiguousarray(queries), np.ascontiguousarray(references)
    found = _handed_in[-1].nearest(queries, references, count, metric) if _handed_in else None
    return search_on_cpu(queries, references, count, metric) if found is None else found


def backend_in_use() -> SearchBackend | None:
    """Return the backend in use, if there is one."""
    return _handed_in[-1] if _handed_in else None


def search_on_cpu(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Do what `search_block` does with queries [n, d] and references [m, d] on the CPU: many pairs by Faiss, few by NumPy."""
    if len(queries) * len(references) < MIN_PAIRS_FOR_FAISS or find_spec("faiss") is None:
        return _search_by_numpy(queries, references, count, metric)
    import faiss

    kind = faiss.METRIC_INNER_PRODUCT if metric == "cosine" else faiss.METRIC_L2
    values, rows = faiss.knn(queries, references, count, metric=kind)
    return values, rows


def iterate_distances(
    queries: NDArray[np.float32], references: NDArray[np.float32], metric: Metric
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield how far all references [m, d] are from some queries of [n, d], float32 [≤ n, m], and the first one's number.

    That is the negative cosine, or the squared distance as float32 has it; the arrays are the caller's.
    """
    squares = np.einsum("md,md->m", references, references)
    step = max(1, PRODUCTS_PER_BLOCK // max(1, len(references)))
    for first in range(0, len(queries), step):
        asked = queries[first : first + step]
        away = -(asked @ references.T)
        if metric == "distance":
            away = np.maximum(np.einsum("nd,nd->n", asked, asked)[:, None] + squares + 2 * away, 0)
        yield first, away


def _search_by_numpy(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Compare all with all, block by block; as in Faiss, row −1 stands for a value that is not finite."""
    count = min(count, len(references))
    values, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
    for first, away in iterate_distances(queries, references, metric):
        near = np.argpartition(away, count - 1, axis=1)[:, :count] if count < len(references) else _all_rows(away)
        lengths = np.take_along_axis(away, near, 1)
        order = np.lexsort((near, lengths), axis=1)
        near, lengths = np.take_along_axis(near, order, 1), np.take_along_axis(lengths, order, 1)
        rows[first : first + len(away)] = np.where(np.isfinite(lengths), near, -1)
        values[first : first + len(away)] = lengths if metric == "distance" else -lengths
    return values, rows


def _all_rows(table: NDArray[np.float32]) -> Rows:
    return np.broadcast_to(np.arange(table.shape[1]), table.shape)
