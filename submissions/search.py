"""Exact search: the pairs of queries and references with the smallest distance, globally."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REFERENCE_BLOCK = 16_384
QUERY_BLOCK = 1024
EXACT_BLOCK = 65_536


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs as rows: queries [m], references [m], squared distances [m] float64; nearest first."""

    queries: NDArray[np.int64]
    references: NDArray[np.int64]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.distances)


def search_pairs(
    queries: NDArray[np.float32], references: NDArray[np.float32], count: int, block: int = REFERENCE_BLOCK
) -> ScoredPairs:
    """The `count` nearest pairs of [n, d] and [m, d], and every further pair that ties with the last of them.

    Candidates come from block-wise matrix products; their distances are computed again as Σ (q − r)² in float64, so that
    the result depends neither on blocks nor on threads. Equal distances keep the order (query row, reference row).
    """
    count = min(count, len(queries) * len(references))
    if count == 0:
        nothing = np.zeros(0, np.int64)
        return ScoredPairs(nothing, nothing, np.zeros(0))
    lengths = np.einsum("nd,nd->n", references, references)
    radius = np.float32(np.inf)
    kept: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []
    held = 0
    for start in range(0, len(queries), QUERY_BLOCK):
        rows = queries[start : start + QUERY_BLOCK]
        own = np.einsum("nd,nd->n", rows, rows)[:, None]
        for first in range(0, len(references), block):
            part = references[first : first + block]
            distances = rows @ part.T
            distances *= -2
            distances += lengths[first : first + block]
            distances += own
            hit = np.nonzero(distances <= radius)
            kept.append((hit[0] + start, hit[1] + first, distances[hit]))
            held += len(hit[0])
            if held > 2 * count:
                kept, radius = _nearest(kept, count)
                held = len(kept[0][0])
    query_rows, reference_rows, _ = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return _ranked(queries, references, query_rows, reference_rows, count)


def exact_distances(
    queries: NDArray[np.float32],
    references: NDArray[np.float32],
    query_rows: NDArray[np.int64],
    reference_rows: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Squared distances [m] of the given pairs as Σ (q − r)² in float64."""
    distances = np.empty(len(query_rows))
    for start in range(0, len(query_rows), EXACT_BLOCK):
        part = slice(start, start + EXACT_BLOCK)
        difference = queries[query_rows[part]].astype(np.float64) - references[reference_rows[part]]
        distances[part] = np.einsum("nd,nd->n", difference, difference)
    return distances


def _nearest(
    kept: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]], count: int
) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]], np.float32]:
    """Drop candidates that cannot be among the `count` nearest; the margin covers the rounding of the products."""
    query_rows, reference_rows, distances = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    cut = np.partition(distances, count - 1)[count - 1]
    radius = np.float32(cut + 1e-5 * (abs(float(cut)) + 4))
    keep = distances <= radius
    return [(query_rows[keep], reference_rows[keep], distances[keep])], radius


def _ranked(
    queries: NDArray[np.float32],
    references: NDArray[np.float32],
    query_rows: NDArray[np.int64],
    reference_rows: NDArray[np.int64],
    count: int,
) -> ScoredPairs:
    distances = exact_distances(queries, references, query_rows, reference_rows)
    cut = np.partition(distances, count - 1)[count - 1]
    keep = distances <= cut
    query_rows, reference_rows, distances = query_rows[keep], reference_rows[keep], distances[keep]
    order = np.lexsort((reference_rows, query_rows, distances))
    return ScoredPairs(query_rows[order], reference_rows[order], distances[order])
