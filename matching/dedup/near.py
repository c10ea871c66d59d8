"""Which of many vectors are near each other: products of 8 bits a number leave few pairs, which are compared in float32.

The error of the rounded vectors is bounded, so that no pair is lost.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from image_copies.submissions.search.neighbours import Neighbours, Rows, device_in_use

PRODUCTS_AT_ONCE = 2**24  # products held in memory, at most
ROWS_AT_ONCE = 1024  # vectors rounded together
PAIRS_AT_ONCE = 2**16  # pairs whose vectors are copied together
MOST_LEFT = 1 / 32  # share of the pairs left by 8 bits, above which all products in float32 are faster
LARGEST = 127  # largest number of 8 bits
Near = tuple[Rows, Rows, NDArray[np.float32]]


@dataclass(frozen=True)
class Rounded:
    """Vectors rounded to 8 bits a number.

    Attributes:
        codes: The vectors · scale, int8 [n, d].
        scale: By which they were multiplied.
        squares: Of the vectors' lengths, float32 [n].
        longest: Length of the longest.
        error: Length of the longest of what was rounded away.
    """

    codes: NDArray[np.int8]
    scale: float
    squares: NDArray[np.float32]
    longest: float
    error: float


@dataclass(frozen=True)
class Held:
    """Vectors float16 [n, d] that are searched often.

    Attributes:
        vectors: In memory.
    """

    vectors: NDArray[np.float16]

    @cached_property
    def rounded(self) -> Rounded:
        """The vectors, rounded."""
        count, error = len(self.vectors), 0.0
        largest = (self.vectors.view(np.uint16) & 0x7FFF).max(initial=0).view(np.float16)  # without the sign, bits order numbers
        scale = LARGEST / max(float(largest), 1e-6)
        codes, squares = np.empty(self.vectors.shape, np.int8), np.empty(count, np.float32)
        for first in range(0, count, ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            vectors = self.vectors[part].astype(np.float32)
            codes[part] = nearest = np.rint(vectors * scale)
            away = vectors - nearest / scale
            squares[part] = np.einsum("nd,nd->n", vectors, vectors)
            error = max(error, float(np.einsum("nd,nd->n", away, away).max()))
        return Rounded(codes, scale, squares, float(squares.max(initial=0)) ** 0.5, error**0.5)


def find_near(queries: Held, references: Held, asked: Rows, compared: Rows, limit: float) -> Near:
    """Find which of some queries and references are within a squared distance of each other, as float32 has it.

    `asked` [n] are rows of the queries, `compared` [m] ≥ 1 of the references. Returned are places in these, int64 [k] each, those
    of `asked` ascending, and squared distances float32 [k].
    """
    if device_in_use() is not None:
        compared_vectors = references.vectors[compared].astype(np.float32)
        pairs = Neighbours(compared_vectors).within(queries.vectors[asked].astype(np.float32), limit)
        return pairs.queries, pairs.references, pairs.distances.astype(np.float32)
    parts, step = list[Near](), max(1, PRODUCTS_AT_ONCE // len(compared))
    for first in range(0, len(asked), step):
        own = asked[first : first + step]
        left = _find_candidates(queries.rounded, references.rounded, own, compared, limit) if _multiplies_exactly() else None
        if left is None or len(left) > MOST_LEFT * len(own) * len(compared):
            rows, columns, far = _compare_all(queries.vectors[own], references.vectors[compared], limit)
        else:
            rows, columns = np.divmod(left, len(compared))
            far = _measure(queries.vectors, references.vectors, own[rows], compared[columns])
            near = far <= limit
            rows, columns, far = rows[near], columns[near], far[near]
        parts.append((rows + first, columns, far))
    rows, columns, far = (np.concatenate(own) for own in zip(*parts, strict=True))
    return rows, columns, far


@cache
def _multiplies_exactly() -> bool:
    """Whether torch is there and multiplies 8 bits: not where a processor adds products in 16 bits, which are too few."""
    try:
        import torch  # imported here: the process that starts a deduplication compares nothing
    except ImportError:
        return False
    if not torch.backends.mkldnn.is_available():
        return False  # one by one, which takes longer than in float32
    codes = torch.full((64, 256), LARGEST, dtype=torch.int8)
    return all(bool((torch._int_mm(codes, sign * codes.T) == sign * 256 * LARGEST**2).all()) for sign in (-1, 1))


def _find_candidates(queries: Rounded, references: Rounded, asked: Rows, compared: Rows, limit: float) -> Rows:
    """Return the places, in a table of queries and references, of pairs that may be within a squared distance, ascending."""
    import torch

    error = queries.error * references.longest + (queries.longest + queries.error) * references.error
    least = (queries.squares[asked] + references.squares[compared].min() - limit) / 2 - error
    left, right = torch.from_numpy(queries.codes[asked]), torch.from_numpy(references.codes[compared])
    products = torch._int_mm(left, right.T).numpy()
    return np.flatnonzero(products >= np.floor(queries.scale * references.scale * least).astype(np.int32)[:, None])


def _compare_all(
    queries: NDArray[np.float16], references: NDArray[np.float16], limit: float
) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Compare all by products in float32."""
    left, right = queries.astype(np.float32), references.astype(np.float32)
    squares = [np.einsum("nd,nd->n", side, side) for side in (left, right)]
    away = squares[0][:, None] + squares[1] - 2 * (left @ right.T)
    rows, columns = np.nonzero(away <= limit)
    return rows, columns, away[rows, columns]


def _measure(queries: NDArray[np.float16], references: NDArray[np.float16], asked: Rows, compared: Rows) -> NDArray[np.float32]:
    """Return the squared distances [n] of pairs of rows [n] each."""
    far = np.empty(len(asked), np.float32)
    for first in range(0, len(asked), PAIRS_AT_ONCE):
        part = slice(first, first + PAIRS_AT_ONCE)
        away = queries[asked[part]].astype(np.float32) - references[compared[part]].astype(np.float32)
        far[part] = np.einsum("nd,nd->n", away, away)
    return far
