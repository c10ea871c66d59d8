"""Figures of class, instance and copy retrieval on vectors: Recall@K, NMI, mAP, UKB score, IN-aug accuracy.

Similarity is the dot product, which orders unit vectors as their distances do. Among equal similarities the wrong image counts
as ranked first, so that no figure profits from ties (vectors that are all alike score nothing, not everything). A zero vector,
that of an image that cannot be read, matches nothing: it lies behind all others.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import normalized_mutual_info_score

from data.errors import UserError

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]
BLOCK = 2**25  # similarities held at once: 128 MB of float32
NO_RANK = np.iinfo(np.int64).max
MAX_EXACT_KMEANS = 20_000  # more vectors than this are clustered in batches


def recall_at(vectors: Floats, labels: Labels, ks: Sequence[int] = (1, 2, 4, 8)) -> dict[int, float]:
    """Recall@K: the share 0…1 of images with an image of their own class among their K nearest, the image itself left out.

    Images that are alone in their class count as queries that fail, as in the usual protocol.

    Args:
        vectors: [n, d].
        labels: int64 [n].
        ks: each K, at least 1.

    Raises:
        UserError: fewer than two images, K below 1, other numbers of labels than vectors, every image alone in its class.
    """
    _check(vectors, labels)
    if not ks or min(ks) < 1:
        raise UserError(f"Recall@K needs K of at least 1; got {list(ks)}.")
    if len(np.unique(labels)) == len(labels):
        raise UserError(f"each of the {len(labels)} images is alone in its class: Recall@K needs classes of two or more images.")
    ranks = np.concatenate([_first_hit(block, first, labels) for first, block in _similarities(vectors, vectors)])
    return {k: float((ranks < k).mean()) for k in ks}


def _first_hit(similarities: Floats, first: int, labels: Labels) -> NDArray[np.int64]:
    """How many wrong images rank before the first right one [m], for queries `first`…; NO_RANK when there is none."""
    rows = np.arange(len(similarities))
    similarities[rows, first + rows] = -np.inf
    same = labels[first + rows, None] == labels
    same[rows, first + rows] = False
    best = np.where(same, similarities, -np.inf).max(axis=1)
    same[rows, first + rows] = True  # the query is neither right nor wrong
    before = ((similarities >= best[:, None]) & ~same).sum(axis=1)
    return np.where(np.isneginf(best), NO_RANK, before)


def normalized_mutual_information(vectors: Floats, labels: Labels, seed: int = 0) -> float:
    """NMI 0…1 between classes and as many k-means clusters: I / √(H(classes) H(clusters)) (SVMax, appendix B).

    Args:
        vectors: [n, d]; more than 20,000 are clustered in batches.
        labels: int64 [n].
        seed: of k-means.

    Raises:
        UserError: fewer than two images, or other numbers of labels than vectors.
    """
    _check(vectors, labels)
    clusters = len(np.unique(labels))
    kind = KMeans if len(vectors) <= MAX_EXACT_KMEANS else MiniBatchKMeans
    found = kind(clusters, n_init=1, random_state=seed).fit_predict(np.ascontiguousarray(vectors, dtype=np.float32))
    return float(normalized_mutual_info_score(labels, found, average_method="geometric"))


def mean_average_precision(
    queries: Floats, database: Floats, relevant: Sequence[Sequence[int]], ignored: Sequence[Sequence[int]]
) -> float:
    """Mean average precision 0…1 with the protocol of Holidays and Copydays.

    The area under each precision-recall curve is the trapezoidal one of INRIA's holidays_map.py: at the j-th (from 0) of R
    relevant
    images, found at rank r (from 0), it grows by (j / r + (j + 1) / (r + 1)) / 2R, with j / r = 1 at r = 0.

    Args:
        queries: [q, d].
        database: [n, d].
        relevant: for each query, the rows of the database that answer it.
        ignored: for each query, the rows taken out of its ranking before ranks are counted: the query itself and junk.

    Raises:
        UserError: lists of other lengths, a query without an answer, invalid rows, rows both relevant and ignored.
    """
    if not len(queries) == len(relevant) == len(ignored) > 0:
        raise UserError(f"{len(queries)} queries with {len(relevant)} relevant and {len(ignored)} ignored lists; give one each.")
    for number, (right, out) in enumerate(zip(relevant, ignored, strict=True)):
        if not len(right) or set(right) & set(out) or not all(0 <= row < len(database) for row in (*right, *out)):
            raise UserError(
                f"query {number}: relevant {list(right)[:5]}, ignored {list(out)[:5]}; expected different rows of the database "
                f"in 0…{len(database) - 1}, at least one of them relevant."
            )
    total = 0.0
    for first, block in _similarities(queries, database):
        for query, similarities in enumerate(block, start=first):
            ranks = _ranks(similarities, np.asarray(relevant[query]), np.asarray(ignored[query], dtype=np.int64))
            total += _trapezoidal_precision(ranks)
    return total / len(queries)


def _ranks(similarities: Floats, relevant: NDArray[np.int64], ignored: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks from 0 of the relevant images, best first, without the ignored ones."""
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
    """UKB score 0…4: how many of an image's group of four are among its four nearest, itself included, on average.

    Args:
        vectors: [n, d].
        groups: int64 [n], four images each.

    Raises:
        UserError: a group does not have four images.
    """
    _check(vectors, groups)
    sizes = np.unique(groups, return_counts=True)[1]
    if (sizes != 4).any():
        raise UserError(f"{int((sizes != 4).sum())} of {len(sizes)} groups have not four images; UKB has four of each object.")
    return _group_score(vectors, groups, 4)


def in_aug_accuracy(vectors: Floats, groups: Labels, copies: int = 5) -> float:
    """IN-aug accuracy 0…5 (MultiGrain, ICLR section 3.5, arXiv section 4.2), "in a fashion similar to UKBench".

    Every augmented copy is a query among all of them; counted is how many of its image's copies are among its nearest `copies`,
    the
    query itself included, as in UKB: distinct vectors reach at least 1.

    Args:
        vectors: [n · copies, d].
        groups: int64 [n · copies], each copy's image.
        copies: of each image.

    Raises:
        UserError: an image does not have `copies` copies.
    """
    _check(vectors, groups)
    sizes = np.unique(groups, return_counts=True)[1]
    if (sizes != copies).any():
        raise UserError(f"{int((sizes != copies).sum())} of {len(sizes)} images have not {copies} augmented copies each.")
    return _group_score(vectors, groups, copies)


def _group_score(vectors: Floats, groups: Labels, top: int) -> float:
    """The mean number of images of the query's group among its `top` nearest, itself included."""
    total = 0
    for first, block in _similarities(vectors, vectors):
        same = groups[first : first + len(block), None] == groups
        right, wrong = _largest(np.where(same, block, -np.inf), top), _largest(np.where(same, -np.inf, block), top)
        before = (wrong[:, None, :] >= right[:, :, None]).sum(axis=2)
        total += int((before + np.arange(top) < top).sum())
    return total / len(vectors)


def _largest(values: Floats, count: int) -> Floats:
    """The `count` largest values of each row, largest first."""
    return -np.sort(np.partition(-values, count - 1, axis=1)[:, :count], axis=1)


def mean_singular_value(vectors: Floats) -> tuple[float, float, float]:
    """(s, L, U): the mean singular value of the L2-normalised vectors [b, d] and its bounds (SVMax, section B.1).

    There are k = min(b, d) singular values; L = √b / k when all vectors are one, U = √(b / k) when they spread evenly. A zero
    vector
    has no direction and is left out.

    Raises:
        UserError: every vector is zero.
    """
    values = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=1)
    values = values[lengths > 0] / lengths[lengths > 0, None]
    count, kept = len(values), min(values.shape)
    if kept == 0:
        raise UserError("the mean singular value needs at least one vector that is not zero.")
    gram = values.T @ values if values.shape[1] <= count else values @ values.T
    s = float(np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None)).sum()) / kept
    return s, count**0.5 / kept, (count / kept) ** 0.5


def _similarities(queries: Floats, database: Floats) -> Iterator[tuple[int, Floats]]:
    """Blocks [m, n] of float32 dot products, each with the number of its first query."""
    left, right = np.asarray(queries, dtype=np.float32), np.asarray(database, dtype=np.float32)
    step = max(1, BLOCK // len(right))
    for first in range(0, len(left), step):
        block = left[first : first + step] @ right.T
        block[~left[first : first + step].any(axis=1)] = -np.inf
        block[:, ~right.any(axis=1)] = -np.inf
        yield first, block


def _check(vectors: Floats, labels: Labels) -> None:
    if vectors.ndim != 2 or len(labels) != len(vectors) or len(vectors) < 2:
        raise UserError(f"vectors {list(vectors.shape)} and {len(labels)} labels; expected [n, d] and n, with n of at least 2.")
