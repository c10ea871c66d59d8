"""Metrics of class, instance and copy retrieval on vectors: Recall@K, mAP, UKB score, IN-aug accuracy.

Similarity is the dot product, which ranks unit vectors as their distances do. Among equal similarities wrong images rank first,
so that no metric profits from ties: identical vectors score nothing, not everything. A zero vector, which stands for an
unreadable image, ranks behind all others.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Int64s
from image_copies.data.errors import UserError
from image_copies.submissions.search.neighbours import iterate_distances

Floats = NDArray[np.floating]
Labels = Int64s
NO_RANK = np.iinfo(np.int64).max


def recall_at(vectors: Floats, labels: Labels, ks: Sequence[int] = (1, 2, 4, 8)) -> dict[int, float]:
    """Compute Recall@K: the share 0…1 of images with an image of their own class among their K nearest, themselves excluded.

    Images that are alone in their class count as failed queries, as in the usual protocol. Vectors are [n, d], labels int64 [n].

    Raises:
        UserError: when every image is alone in its class.
    """
    if len(np.unique(labels)) == len(labels):
        raise UserError(
            f"each of the {len(labels)} images is alone in its class: Recall@K needs classes of two or more images. "
            "Check the labels."
        )
    ranks = np.concatenate(
        [_first_hit(block, first, labels) for first, block in _similarities(vectors, vectors)]
    )
    return {k: float((ranks < k).mean()) for k in ks}


def _first_hit(similarities: Floats, first: int, labels: Labels) -> Int64s:
    """Count the wrong images that rank before the first right one, int64 [m], for a block of queries that starts at row `first`.

    NO_RANK stands for a query without a right image.
    """
    rows = np.arange(len(similarities))
    similarities[rows, first + rows] = -np.inf
    same = labels[first + rows, None] == labels
    same[rows, first + rows] = False
    best = np.where(same, similarities, -np.inf).max(axis=1)
    same[rows, first + rows] = True  # the query is neither right nor wrong
    before = ((similarities >= best[:, None]) & ~same).sum(axis=1)
    return np.where(np.isneginf(best), NO_RANK, before)


def mean_average_precision(
    queries: Floats, database: Floats, relevant: Sequence[Sequence[int]], ignored: Sequence[Sequence[int]]
) -> float:
    """Compute mean average precision 0…1 by the protocol of Holidays and Copydays, of queries [q, d] in a database [n, d].

    The area under each precision-recall curve is the trapezoidal one of INRIA's holidays_map.py: the j-th (from 0) of R relevant
    images, found at rank r (from 0), adds (j / r + (j + 1) / (r + 1)) / 2R, with j / r = 1 at r = 0. Of each query, the rows of
    the database that are right answers are given, and those that are removed from its ranking: the query itself and junk images.
    """
    total = 0.0
    for first, block in _similarities(queries, database):
        for query, similarities in enumerate(block, start=first):
            ranks = _ranks(
                similarities, np.asarray(relevant[query]), np.asarray(ignored[query], dtype=np.int64)
            )
            total += _trapezoidal_precision(ranks)
    return total / len(queries)


def _ranks(similarities: Floats, relevant: Int64s, ignored: Int64s) -> Int64s:
    """Return the ranks from 0 of the relevant images, best first, after removing the ignored ones."""
    wrong = np.ones(len(similarities), bool)
    wrong[relevant] = wrong[ignored] = False
    others = np.sort(similarities[wrong])
    right = np.sort(similarities[relevant])[::-1]
    return len(others) - np.searchsorted(others, right, side="left") + np.arange(len(right))


def _trapezoidal_precision(ranks: Int64s) -> float:
    found = np.arange(len(ranks))
    before = np.where(ranks == 0, 1.0, found / np.maximum(ranks, 1))
    return float(((before + (found + 1) / (ranks + 1)) / 2).mean())


def ukb_score(vectors: Floats, groups: Labels) -> float:
    """Compute the UKB score 0…4: the mean number of images of its own group among an image's four nearest, itself included.

    Vectors are [n, d], groups of four images int64 [n].
    """
    return _group_score(vectors, groups, 4)


def in_aug_accuracy(vectors: Floats, groups: Labels, copies: int = 5) -> float:
    """Compute IN-aug accuracy 0…copies (MultiGrain, ICLR section 3.5, arXiv section 4.2), "in a fashion similar to UKBench".

    Every augmented copy is a query among all of them. The accuracy is the mean number of copies of the same image among its
    `copies` nearest, itself included as in UKB, so that distinct vectors reach at least 1. Vectors are [n · copies, d], their
    images int64 [n · copies].
    """
    return _group_score(vectors, groups, copies)


def _group_score(vectors: Floats, groups: Labels, top: int) -> float:
    """Return the mean number of images of the query's group, which are `top`, among its `top` nearest, itself included."""
    total = 0
    for first, block in _similarities(vectors, vectors):
        same = groups[first : first + len(block), None] == groups
        right, wrong = (
            _largest(np.where(same, block, -np.inf), top),
            _largest(np.where(same, -np.inf, block), top),
        )
        before = (wrong[:, None, :] >= right[:, :, None]).sum(axis=2)
        total += int((before + np.arange(top) < top).sum())
    return total / len(vectors)


def _largest(values: Floats, count: int) -> Floats:
    """Return the `count` largest values of each row, largest first."""
    return -np.sort(np.partition(-values, count - 1, axis=1)[:, :count], axis=1)


def _similarities(queries: Floats, database: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield blocks [m, n] of float32 dot products, each with the row of its first query; −∞ for zero vectors."""
    left = np.asarray(queries, dtype=np.float32)
    right = np.asarray(database, dtype=np.float32)
    for first, away in iterate_distances(left, right, "cosine"):
        away[~left[first : first + len(away)].any(axis=1)] = np.inf
        away[:, ~right.any(axis=1)] = np.inf
        yield first, -away
