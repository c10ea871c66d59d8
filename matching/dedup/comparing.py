"""Which pictures of two blocks are copies: those that meet in a list are compared, and what is near again, exactly."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.dedup.blocks import Packed
from image_copies.matching.dedup.near import Held, find_near
from image_copies.submissions.search.neighbours import compute_exact_distances

MOST_NEAR = 256  # pictures of a list and a block that one picture is paired with, at most: the nearest
ROUNDING = 1e-4  # largest error of a squared distance in float32
MOST_WAITING = 2**22  # places of pairs that are held before equal ones are joined
PAIRS_AT_ONCE = 2**16  # pairs whose distances are computed together
# Rows of two blocks, their squared distance, and whether the bytes are equal; within a block the lower row comes first.
MET = np.dtype([("one", "<i4"), ("other", "<i4"), ("distance", "<f8"), ("same", "?")])
Rows = NDArray[np.int64]


def compare_blocks(one: Packed, other: Packed, limit: float, across: bool) -> NDArray[np.void]:
    """Return the pairs MET [n] of two blocks within a squared distance, or of a block with itself.

    With `across` the first is of the inputs and the other of a test set: each twin of an input is then paired as that is.
    Without, what has equal bytes in the other block is not compared with the rest of it: the other is.
    """
    within = one is other and not across
    same = np.zeros((0, 2), np.int64) if within else np.stack(np.intersect1d(one.digests, other.digests, True, True)[1:], axis=1)
    first, second = _divide(_find_candidates(one, other, limit, within), other)
    if within:
        first, second = np.minimum(first, second), np.maximum(first, second)
        kept = first != second
    elif across:
        kept = one.digests[first] != other.digests[second]
    else:
        kept = ~(np.isin(first, same[:, 0]) | np.isin(second, same[:, 1]))
    first, second = _divide(np.unique(_join(first[kept], second[kept], other)), other)
    distances = _measure(one, other, first, second)
    near = distances <= limit
    pairs = _pack(one.rows[first[near]], other.rows[second[near]], distances[near], False)
    twins = one.twins if within else np.stack([one.rows[same[:, 0]], other.rows[same[:, 1]]], axis=1)
    pairs = np.concatenate([pairs, _pack(twins[:, 0], twins[:, 1], np.zeros(len(twins)), True)])
    if within:
        swapped = pairs["one"] > pairs["other"]
        pairs["one"][swapped], pairs["other"][swapped] = pairs["other"][swapped], pairs["one"][swapped]
    return np.concatenate([pairs, *_pair_twins(pairs, one.twins)]) if across else pairs


def _find_candidates(one: Packed, other: Packed, limit: float, within: bool) -> Rows:
    """Return the pairs of vectors that meet in a list and seem near, as `_join` names them; perhaps several times."""
    held = {id(array): Held(array) for array in (one.queries, one.vectors, other.queries, other.vectors)}
    asked = (held[id(one.queries)], held[id(other.vectors)]), (held[id(other.queries)], held[id(one.vectors)])
    found, waiting = [np.zeros(0, np.int64)], 0
    for start, end, from_, to in zip(one.starts, one.starts[1:], other.starts, other.starts[1:], strict=False):
        members, others = (own.astype(np.int64) for own in (one.members[start:end], other.members[from_:to]))
        if not len(members) or not len(others):
            continue
        rows, columns = _select_near(*asked[0], members, others, limit)
        found.append(_join(rows, columns, other))
        if not within and (one.is_normalized or other.is_normalized):
            columns, rows = _select_near(*asked[1], others, members, limit)
            found.append(_join(rows, columns, other))
        waiting += sum(map(len, found[-2:]))
        if waiting > MOST_WAITING:
            found = [np.unique(np.concatenate(found))]
            waiting = len(found[0]) // 2
    return np.concatenate(found)


def _select_near(queries: Held, references: Held, asked: Rows, compared: Rows, limit: float) -> tuple[Rows, Rows]:
    """Return queries and references that are near each other, of each query the nearest."""
    rows, columns, far = find_near(queries, references, asked, compared, limit + ROUNDING)
    if len(rows) > MOST_NEAR and (counts := np.bincount(rows)).max() > MOST_NEAR:
        order = np.lexsort((columns, far, rows))
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = order[rank <= MOST_NEAR]  # one more: itself
        rows, columns = rows[kept], columns[kept]
    return asked[rows], compared[columns]


def _join(first: Rows, second: Rows, other: Packed) -> Rows:
    """Return one number for each pair of vectors."""
    return first * max(1, len(other.vectors)) + second


def _divide(joined: Rows, other: Packed) -> tuple[Rows, Rows]:
    """Return the vectors of pairs."""
    first, second = np.divmod(joined, max(1, len(other.vectors)))
    return first, second


def _measure(one: Packed, other: Packed, first: Rows, second: Rows) -> NDArray[np.float64]:
    """Return the squared distances [n] of pairs of vectors, whichever of the two is normalised: the smaller."""
    distances = np.empty(len(first))
    for start in range(0, len(first), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        sides = [(one.queries[first[part]], other.vectors[second[part]])]
        if one.is_normalized or other.is_normalized:
            sides.append((other.queries[second[part]], one.vectors[first[part]]))
        row = np.arange(len(first[part]))
        far = [
            compute_exact_distances(asked.astype(np.float32), vectors.astype(np.float32), row, row) for asked, vectors in sides
        ]
        distances[part] = np.min(far, axis=0)
    return distances


def _pack(one: NDArray[np.int32], other: NDArray[np.int32], distances: NDArray[np.float64], same: bool) -> NDArray[np.void]:
    pairs = np.empty(len(one), MET)
    pairs["one"], pairs["other"], pairs["distance"], pairs["same"] = one, other, distances, same
    return pairs


def _pair_twins(pairs: NDArray[np.void], twins: NDArray[np.int32]) -> Iterator[NDArray[np.void]]:
    """Yield the pairs MET [n] of the twins of what is paired."""
    ordered = pairs[np.argsort(pairs["one"])]
    starts, ends = (np.searchsorted(ordered["one"], twins[:, 0], side) for side in ("left", "right"))
    counts = ends - starts
    places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    again = ordered[places]
    again["one"] = np.repeat(twins[:, 1], counts)
    yield again
