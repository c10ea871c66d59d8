"""Which pictures of two blocks are copies: those that meet in a list are compared."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.dedup.blocks import Packed
from image_copies.submissions.search.neighbours import Neighbours, Rows, ScoredPairs

MOST_NEAR = 256  # pictures of a list and a block that one picture is paired with, at most: the nearest
MOST_WAITING = 2**22  # pairs that are held before equal ones are joined
# row of a vector · number of the others + row of another one
NEAR = np.dtype([("pair", "<i8"), ("distance", "<f8")])
# Rows of two blocks, their squared distance, and whether the bytes are equal.
MET = np.dtype([("one", "<i4"), ("other", "<i4"), ("distance", "<f8"), ("same", "?")])


def compare_blocks(one: Packed, other: Packed, limit: float) -> NDArray[np.void]:
    """Return the pairs MET [n] of two blocks within a squared distance, or of a block with itself, and those of equal bytes.

    Twins are left to those that stand for them. A pair that meets in several lists, or both ways round, has the least distance.
    """
    found, waiting, width = [np.zeros(0, NEAR)], 0, max(1, len(other.vectors))
    for first, second, distances in _compare_lists(one, other, limit):
        found.append(np.rec.fromarrays([first * width + second, distances], dtype=NEAR))
        waiting += len(first)
        if waiting > MOST_WAITING:
            found = [_join(found)]
            waiting = len(found[0]) // 2
    near = _join(found)
    first, second = np.divmod(near["pair"], width)
    pairs = one.rows[first], other.rows[second], near["distance"], np.zeros(len(near), bool)
    if one is other:
        return np.rec.fromarrays(pairs, dtype=MET)
    _, first, second = np.intersect1d(one.digests, other.digests, assume_unique=True, return_indices=True)
    same = one.rows[first], other.rows[second], np.zeros(len(first)), np.ones(len(first), bool)
    return np.concatenate([np.rec.fromarrays(pairs, dtype=MET), np.rec.fromarrays(same, dtype=MET)])


def _compare_lists(
    one: Packed, other: Packed, limit: float
) -> Iterator[tuple[Rows, Rows, NDArray[np.float64]]]:
    """Yield, of each list, vectors that are near each other, and their squared distances; of one block the lower row first."""
    directions = [(one, other)]
    if one is not other and (len(one.queries) or len(other.queries)):
        directions.append((other, one))
    for asked, compared in directions:
        queries = asked.queries if len(asked.queries) else asked.vectors
        for members, others in zip(
            *(np.split(block.members, block.starts[1:-1]) for block in (asked, compared)), strict=True
        ):
            references = Neighbours(compared.vectors[others].astype(np.float32))
            near = _keep_nearest(references.within(queries[members].astype(np.float32), limit))
            first, second = members[near.queries], others[near.references]
            if one is other:
                apart = first != second
                yield (
                    np.minimum(first, second)[apart],
                    np.maximum(first, second)[apart],
                    near.distances[apart],
                )
            elif asked is one:
                yield first, second, near.distances
            else:
                yield second, first, near.distances


def _keep_nearest(pairs: ScoredPairs) -> ScoredPairs:
    """Return those of each query with the nearest; they are ordered by query."""
    counts = np.bincount(pairs.queries)
    if counts.max(initial=0) <= MOST_NEAR:
        return pairs
    order = np.lexsort((pairs.references, pairs.distances, pairs.queries))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pairs.take(order[rank <= MOST_NEAR])  # one more: itself


def _join(found: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Return each pair NEAR [n] once, with its least distance, ascending."""
    every = np.concatenate(found)
    every = every[np.lexsort((every["distance"], every["pair"]))]
    return every[np.unique(every["pair"], return_index=True)[1]]
