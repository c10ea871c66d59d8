"""Every query's nearest references, searched shard by shard, so that the result is the same wherever the shards are searched."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place
from image_copies.submissions.search.backend import Metric, Rows, search_block
from image_copies.submissions.search.exact import PAIRS_PER_BLOCK
from image_copies.submissions.search.references import search_references
from image_copies.submissions.vectors.rows import RowsShard, VectorRows

SPARE = 8  # further neighbours that are searched in float32, so that exact values decide which are the nearest

Nearest = tuple[NDArray[np.float64], Rows]


def search_nearest(
    queries: NDArray[np.float32], references: VectorRows, count: int, metric: Metric
) -> tuple[NDArray[np.float32], Rows]:
    """Find each query's `count` nearest references, of queries [n, d] and references [m, d], float32, in memory or in files.

    Candidates come from float32 products (`submissions.search.backend`), shard by shard; their values are computed again in
    float64, and equal ones are ordered by row. Metric and result are those of `search_block`.
    """
    search = partial(_search_shard, count, metric)
    near: Nearest | None = None
    for found in search_references("searching neighbours", queries, references, search, divide_here=True):
        near = found if near is None else _merge(near, found, count)
    if near is None:
        return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    return (-near[0] if metric == "cosine" else near[0]).astype(np.float32), near[1]


def _search_shard(count: int, metric: Metric, queries: NDArray[np.float32], shard: RowsShard, place: Place) -> Nearest:
    """Return the values to minimise, float64 [n, k], and rows of a shard's references that are nearest to each query."""
    references = shard.load()
    _, rows = search_block(queries, references, min(count + SPARE, len(references)), metric)
    values = np.empty(rows.shape)
    step = max(1, PAIRS_PER_BLOCK // rows.shape[1])
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        near, asked = references[rows[part]].astype(np.float64), queries[part].astype(np.float64)
        if metric == "cosine":
            values[part] = -np.einsum("nd,nkd->nk", asked, near)
        else:
            near -= asked[:, None]
            values[part] = np.einsum("nkd,nkd->nk", near, near)
    order = np.lexsort((rows, values), axis=1)[:, :count]
    place.advance(len(references))
    return np.take_along_axis(values, order, 1), np.take_along_axis(rows, order, 1) + shard.first


def _merge(near: Nearest, found: Nearest, count: int) -> Nearest:
    """Return the nearest of both, of which `found` has the higher rows."""
    values, rows = (np.concatenate(pair, axis=1) for pair in zip(near, found, strict=True))
    order = np.argsort(values, axis=1, kind="stable")[:, :count]  # stable: equal values stay in the order of their rows
    return np.take_along_axis(values, order, 1), np.take_along_axis(rows, order, 1)
