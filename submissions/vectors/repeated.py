"""Vectors that say nothing: those of different images that are equal, and zero vectors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.vectors.files import VectorSet
from image_copies.submissions.vectors.rows import ROWS_PER_BLOCK, divide_rows

MAX_SHARE = 0.1  # of the images: above it the vectors, not the images, are likely to be at fault


@dataclass(frozen=True)
class Repeated:
    """Images whose vectors equal that of an earlier image."""

    rows: NDArray[np.int64]  # of these images [m], ascending
    firsts: NDArray[np.int64]  # the first row with the same vector [m]


def find_repeated(hashes: NDArray[np.uint64]) -> Repeated:
    """Find the rows whose hashes [n, 2] (`hash_rows`) equal those of an earlier row."""
    order = np.lexsort(hashes.T)  # stable
    same = (hashes[order][1:] == hashes[order][:-1]).all(axis=1)
    firsts = np.arange(len(order))
    starts = np.flatnonzero(np.concatenate([[True], ~same])) if len(order) else np.zeros(0, np.int64)
    firsts[order] = np.repeat(order[starts], np.diff([*starts, len(order)]))
    rows = np.flatnonzero(firsts != np.arange(len(firsts)))
    return Repeated(rows, firsts[rows])


def describe_repeated(name: str, part: VectorSet, left_out: NDArray[np.bool_] | None = None) -> list[str]:
    """Describe zero vectors and vectors that several images share, a sentence each; empty where there are none.

    `name` is what the images are, such as "query". Left out are unreadable images, whose vectors say nothing anyway, and those
    that `left_out` bool [n] marks.
    """
    rows = np.flatnonzero(~part.unreadable)
    zero, hashes = np.zeros(len(rows), bool), np.zeros((len(rows), 2), np.uint64)
    for shard in divide_rows(part.readable(), ROWS_PER_BLOCK):
        vectors, own = shard.load(), slice(shard.first, shard.first + len(shard))
        zero[own], hashes[own] = ~vectors.any(axis=1), hash_rows(vectors)
    if left_out is not None:
        kept = ~left_out[rows]
        rows, zero, hashes = rows[kept], zero[kept], hashes[kept]
    found, repeated = [], find_repeated(hashes)
    if zero.any():
        found.append(f"{name}: {zero.sum()} vectors are zero, the first is that of {part.ids[rows[zero.argmax()]]!r}")
    if len(repeated.rows):
        first, second = (part.ids[rows[which[0]]] for which in (repeated.firsts, repeated.rows))
        likely = (
            "a descriptor that collapsed gives such vectors"
            if len(repeated.rows) > MAX_SHARE * len(rows)
            else "equal files have equal vectors"
        )
        found.append(
            f"{name}: {len(repeated.rows)} of {len(rows)} vectors repeat that of an earlier image, such as {second!r} that of "
            f"{first!r}: {likely}"
        )
    return found


def hash_rows(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return two numbers for each row, uint64 [n, 2]: equal rows have the same; different ones do with a probability of 2⁻⁶⁶."""
    weights = np.random.default_rng(0).integers(0, 2**64, (vectors.shape[1], 2), dtype=np.uint64)
    bits = np.ascontiguousarray(vectors).view(np.uint32).astype(np.uint64)
    hashes: NDArray[np.uint64] = bits @ weights
    return hashes
