"""Sums of vectors and of their products, from which a PCA is fitted; those of shards are added in the order of the shards."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors

ROWS_PER_SHARD = 8192  # of the chosen ones
ROWS_PER_BLOCK = 4096  # converted to float64 at once


@dataclass(frozen=True)
class Moments:
    """The sums of some vectors of D dimensions."""

    count: int
    total: NDArray[np.float64]  # [D], their sum
    products: NDArray[np.float64]  # [D, D], the sum of x xᵀ

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.products + other.products)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean [D]."""
        return self.total / self.count

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The covariance matrix [D, D], with 1/n."""
        return self.products / self.count - np.outer(self.mean, self.mean)


def sum_vectors(vectors: NDArray[np.float32]) -> Moments:
    """Sum vectors [n, D] in blocks of fixed size and with one thread, of whose number the last bits may depend."""
    dimensions = vectors.shape[1]
    moments = Moments(0, np.zeros(dimensions), np.zeros((dimensions, dimensions)))
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(vectors), ROWS_PER_BLOCK):
            block = vectors[start : start + ROWS_PER_BLOCK].astype(np.float64)
            moments += Moments(len(block), block.sum(axis=0), block.T @ block)
    return moments


def sum_chosen(vectors: ConcatenatedVectors, rows: NDArray[np.int64]) -> Moments:
    """Sum chosen rows of vectors files, int64 [k] ascending, shard by shard.

    Raises:
        UserError: when a file is damaged or holds invalid vectors.
    """
    work = ShardWork(
        name="summing for the PCA",
        unit="vector",
        open=partial(hold, vectors.without_ids()),
        work=_sum_shard,
        size=len,
    )
    shards = [rows[start : start + ROWS_PER_SHARD] for start in range(0, len(rows), ROWS_PER_SHARD)]
    first, *others = run_shards(work, shards, len(rows))
    return sum(others, first)


def _sum_shard(vectors: ConcatenatedVectors, rows: NDArray[np.int64], place: Place) -> Moments:
    first, last = int(rows[0]), int(rows[-1]) + 1
    chosen, start, parts = rows - first, 0, []
    for block in vectors.blocks(first=first, last=last):
        low, high = np.searchsorted(chosen, (start, start + len(block)))
        parts.append(block[chosen[low:high] - start])
        start += len(block)
    place.advance(len(rows))
    return sum_vectors(np.concatenate(parts))
