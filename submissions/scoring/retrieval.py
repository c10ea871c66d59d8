"""Metrics of class, instance and copy retrieval on vectors: Recall@K, NMI, mAP, UKB score, IN-aug accuracy.

Similarity is the dot product, which ranks unit vectors as their distances do. Among equal similarities wrong images rank first,
so that no metric profits from ties: identical vectors score nothing, not everything. A zero vector, which stands for an
unreadable image, ranks behind all others.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError

from ..search.neighbours import iterate_distances

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]
NO_RANK = np.iinfo(np.int64).max
MAX_EXACT_KMEANS = 20_000  # more vectors than this are clustered in batches


def recall_at(vectors: Floats, labels: Labels, ks: Sequence[int] = (1, 2, 4, 8)) -> dict[int, float]:
    """Compute Recall@K: the share 0…1 of images with an image of their own class among their K nearest, themselves excluded.

    Images that are alone in their class count as failed queries, as in the usual protocol. Vectors are [n, d], labels int64 [n].

    Raises:
        UserError: when there are fewer than two images, K is below 1, the numbers of labels and vectors differ, or every image
            is alone in its class.
    """
    _check(vectors, labels)
    if not ks or min(ks) < 1:
        raise UserError(f"Recall@K was asked for K = {list(ks)}; give one or more values of at least 1.")
    if len(np.unique(labels)) == len(labels):
        raise UserError(
            f"each of the {len(labels)} images is alone in its class: Recall@K needs classes of two or more images. "
            "Check the labels."
        )
    ranks = np.concatenate(
        [_first_hit(block, first, labels) for first, block in _similarities(vectors, vectors)]
    )
    return {k: float((ranks < k).mean()) for k in ks}


def _first_hit(similarities: Floats, first: int, labels: Labels) -> NDArray[np.int64]:
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


def normalized_mutual_information(vectors: Floats, labels: Labels, seed: int = 0) -> float:
    """Compute NMI 0…1 between classes and as many k-means clusters: I / √(H(classes) H(clusters)) (SVMax, appendix B).

    Of the vectors [n, d], more than MAX_EXACT_KMEANS are clustered by mini-batch k-means; labels are int64 [n].

    Raises:
        UserError: when there are fewer than two images, or the numbers of labels and vectors differ.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans  # imported here: a training only needs recalls
    from sklearn.metrics import normalized_mutual_info_score

    _check(vectors, labels)
    clusters = len(np.unique(labels))
    kind = KMeans if len(vectors) <= MAX_EXACT_KMEANS else MiniBatchKMeans
    found = kind(clusters, n_init=1, random_state=seed).fit_predict(
        np.ascontiguousarray(vectors, dtype=np.float32)
    )
    return float(normalized_mutual_info_score(labels, found, average_method="geometric"))


def mean_average_precision(
    queries: Floats, database: Floats, relevant: Sequence[Sequence[int]], ignored: Sequence[Sequence[int]]
) -> float:
    """Compute mean average precision 0…1 by the protocol of Holidays and Copydays, of queries [q, d] in a database [n, d].

    The area under each precision-recall curve is the trapezoidal one of INRIA's holidays_map.py: the j-th (from 0) of R relevant
    images, found at rank r (from 0), adds (j / r + (j + 1) / (r + 1)) / 2R, with j / r = 1 at r = 0. Of each query, the rows of
    the database that are right answers are given, and those that are removed from its ranking: the query itself and junk images.

    Raises:
        UserError: when the lists differ in length, a query has no relevant row, or rows are out of range or both relevant and
            ignored.
    """
    if not len(queries) == len(relevant) == len(ignored) > 0:
        raise UserError(
            f"{len(queries)} queries with {len(relevant)} lists of relevant and {len(ignored)} lists of ignored rows; "
            "give one of each for every query."
        )
    for number, (right, out) in enumerate(zip(relevant, ignored, strict=True)):
        if (
            not len(right)
            or set(right) & set(out)
            or not all(0 <= row < len(database) for row in (*right, *out))
        ):
            raise UserError(
                f"query {number}: relevant {list(right)[:5]}, ignored {list(out)[:5]}; expected different rows of the database "
                f"in 0…{len(database) - 1}, at least one of them relevant."
            )
    total = 0.0
    for first, block in _similarities(queries, database):
        for query, similarities in enumerate(block, start=first):
            ranks = _ranks(
                similarities, np.asarray(relevant[query]), np.asarray(ignored[query], dtype=np.int64)
            )
            total += _trapezoidal_precision(ranks)
    return total / len(queries)


def _ranks(
    similarities: Floats, relevant: NDArray[np.int64], ignored: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ranks from 0 of the relevant images, best first, after removing the ignored ones."""
    wrong = np.ones(len(similarities), bool)
    wrong[relevant] = wrong[ignored] = False
    others = np.sort(similarities[wrong])
    right = np.sort(similarities[relevant])[::-1]
    return len(others) - np.searchsorted(others, right, side="left") + np.arange(len(right))


def _trapezoidal_precision(ranks: NDArray[np.int64]) -> float:
    found = np.arange(len(ranks))
    before = np.where(ranks == 0, 1.0, found / np.maximum(ranks, 1))
    return float(((before + (found + 1) / (ranks + 1)) / 2).mean())


def ukb_score(vectors: Floats, groups: Labels) -> float:
    """Compute the UKB score 0…4: the mean number of images of its own group among an image's four nearest, itself included.

    Vectors are [n, d], groups of four images int64 [n].

    Raises:
        UserError: when a group does not have four images, or the numbers of groups and vectors differ.
    """
    return _group_score(vectors, groups, 4)


def in_aug_accuracy(vectors: Floats, groups: Labels, copies: int = 5) -> float:
    """Compute IN-aug accuracy 0…copies (MultiGrain, ICLR section 3.5, arXiv section 4.2), "in a fashion similar to UKBench".

    Every augmented copy is a query among all of them. The accuracy is the mean number of copies of the same image among its
    `copies` nearest, itself included as in UKB, so that distinct vectors reach at least 1. Vectors are [n · copies, d], their
    images int64 [n · copies].

    Raises:
        UserError: when an image does not have `copies` copies, or the numbers of groups and vectors differ.
    """
    return _group_score(vectors, groups, copies)


def _group_score(vectors: Floats, groups: Labels, top: int) -> float:
    """Return the mean number of images of the query's group, which are `top`, among its `top` nearest, itself included."""
    _check(vectors, groups)
    sizes = np.unique(groups, return_counts=True)[1]
    if (sizes != top).any():
        raise UserError(
            f"{int((sizes != top).sum())} of {len(sizes)} groups do not have {top} images; all must have as many."
        )
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


def mean_singular_value(vectors: Floats) -> tuple[float, float, float]:
    """Compute the mean singular value s of the L2-normalised vectors [b, d], and its bounds L and U (SVMax, section B.1).

    There are k = min(b, d) singular values; s = L = √b / k when all vectors are equal, s = U = √(b / k) when they spread evenly.
    Zero vectors have no direction and are left out.

    Raises:
        UserError: when every vector is zero.
    """
    values = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=1)
    values = values[lengths > 0] / lengths[lengths > 0, None]
    count, kept = len(values), min(values.shape)
    if kept == 0:
        raise UserError(
            f"all {len(vectors)} vectors are zero; the mean singular value needs at least one that is not. "
            "Check that the images can be read."
        )
    gram = values.T @ values if values.shape[1] <= count else values @ values.T
    s = float(np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None)).sum()) / kept
    return s, count**0.5 / kept, (count / kept) ** 0.5


def _similarities(queries: Floats, database: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield blocks [m, n] of float32 dot products, each with the row of its first query; −∞ for zero vectors."""
    left = np.asarray(queries, dtype=np.float32)
    right = np.asarray(database, dtype=np.float32)
    for first, away in iterate_distances(left, right, "cosine"):
        away[~left[first : first + len(away)].any(axis=1)] = np.inf
        away[:, ~right.any(axis=1)] = np.inf
        yield first, -away


def _check(vectors: Floats, labels: Labels) -> None:
    if vectors.ndim != 2 or len(labels) != len(vectors) or len(vectors) < 2:
        raise UserError(
            f"got vectors {list(vectors.shape)} and {len(labels)} labels; expected vectors [n, d] and n labels, n of at least 2."
        )
