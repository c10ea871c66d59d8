"""Vectors that say nothing: those of different images that are equal, and zero vectors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.vectors.files import Vectors

ROWS_PER_BLOCK = 65_536
MAX_SHARE = 0.1  # of the images: above it the vectors, not the images, are likely to be at fault


@dataclass(frozen=True)
class Repeated:
    """Images whose vectors equal that of an earlier image.

    Attributes:
        rows: int64 [m], rows of these images, ascending.
        firsts: int64 [m], the first row with the same vector.
    """

    rows: NDArray[np.int64]
    firsts: NDArray[np.int64]


def find_repeated(vectors: NDArray[np.float32]) -> Repeated:
    """Find the rows of [n, d] that equal an earlier row bit for bit."""
    hashes = _hash_rows(vectors)
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    firsts = np.arange(len(order))
    starts = np.flatnonzero(np.concatenate([[True], ~same])) if len(order) else np.zeros(0, np.int64)
    firsts[order] = np.repeat(order[starts], np.diff([*starts, len(order)]))
    rows = np.flatnonzero(firsts != np.arange(len(firsts)))
    equal = np.array([np.array_equal(vectors[row], vectors[firsts[row]]) for row in rows.tolist()], dtype=bool)
    return Repeated(rows[equal], firsts[rows[equal]])


def describe_repeated(name: str, part: Vectors) -> list[str]:
    """Describe zero vectors and vectors that several images share, a sentence each; empty where there are none.

    Args:
        name: What the images are, such as "query".
        part: Their vectors; unreadable images, whose vectors say nothing anyway, are left out.
    """
    found, rows = [], np.flatnonzero(~part.unreadable)
    vectors = part.vectors[rows]
    zero = rows[~vectors.any(axis=1)]
    if len(zero):
        found.append(f"{name}: {len(zero)} vectors are zero, the first is that of {part.ids[zero[0]]!r}")
    repeated = find_repeated(vectors)
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


def _hash_rows(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return a number for each row [n], the same for equal rows and hardly ever for others."""
    weights = np.random.default_rng(0).integers(1, 2**63, vectors.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(vectors), np.uint64)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        bits = np.ascontiguousarray(vectors[start : start + ROWS_PER_BLOCK]).view(np.uint32).astype(np.uint64)
        hashes[start : start + ROWS_PER_BLOCK] = bits @ weights
    return hashes
