"""Each query's score with its true references and with its nearest wrong one: what decides whether a copy is found."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import number_readable
from image_copies.submissions.search.exact import compute_exact_distances
from image_copies.submissions.search.nearest import search_nearest
from image_copies.submissions.vectors.files import Vectors
from image_copies.submissions.vectors.rows import take_rows
from image_copies.submissions.vectors.stored import StoredVectors


@dataclass(frozen=True)
class QueryScores:
    """Scores −‖q − r‖²; unreadable queries and references are left out."""

    true: dict[tuple[str, str], float] = field(default_factory=dict)  # by (query id, reference id)
    best_wrong: dict[str, tuple[str, float]] = field(default_factory=dict)  # nearest reference that it does not copy


@dataclass(frozen=True)
class ScoreGroups:
    """Scores −‖q − r‖² in three groups."""

    true_copies: NDArray[np.float64]  # [k]
    best_wrong: NDArray[np.float64]  # [n], of each query that is a copy
    distractors: NDArray[np.float64]  # [m], best of each query that copies nothing


def score_queries(queries: Vectors, references: Vectors | StoredVectors, truth: GroundTruth) -> QueryScores:
    """Search every query that the ground truth names among all references; scores are computed in float64.

    Raises:
        UserError: when the ground truth names a query without a vector.
    """
    chosen = queries.rows(truth.query_ids)
    rows, readable, searched = np.flatnonzero(~chosen.unreadable), np.flatnonzero(~references.unreadable), references.readable()
    known = set(chosen.ids)
    numbers = number_readable(references, {reference for query, reference in truth.pairs if query in known})
    own: dict[str, list[int]] = {}
    for query, reference in sorted(truth.pairs):
        if reference in numbers:
            own.setdefault(query, []).append(numbers[reference])
    depth = min(len(searched), 1 + max(map(len, own.values()), default=0))
    if not len(rows) or not depth:
        return QueryScores()
    _, nearest = search_nearest(chosen.vectors[rows], searched, depth, "distance")
    looked_up = np.unique(np.concatenate([nearest.ravel(), np.array(list(numbers.values()), np.int64)]))
    vectors, found = take_rows(searched, looked_up), QueryScores()
    for row, candidates in zip(rows.tolist(), nearest.tolist(), strict=True):
        query = chosen.ids[row]
        copied = own.get(query, [])
        wrong = [candidate for candidate in candidates if candidate not in copied][:1]
        pairs = np.searchsorted(looked_up, np.array(copied + wrong, dtype=np.int64))
        scores = (-compute_exact_distances(chosen.vectors, vectors, np.full(len(pairs), row), pairs)).tolist()
        for number, score in zip(copied, scores, strict=False):
            found.true[query, references.ids[readable[number]]] = score
        if wrong:
            found.best_wrong[query] = (references.ids[readable[wrong[0]]], scores[-1])
    return found


def group_scores(scores: QueryScores, truth: GroundTruth) -> ScoreGroups:
    """Sort the scores into three groups; a query that copies several references contributes several true pairs."""
    copying = {query for query, _ in truth.pairs}
    wrong = [(query, score) for query, (_, score) in scores.best_wrong.items()]
    return ScoreGroups(
        true_copies=np.array(list(scores.true.values()), dtype=np.float64),
        best_wrong=np.array([score for query, score in wrong if query in copying], dtype=np.float64),
        distractors=np.array([score for query, score in wrong if query not in copying], dtype=np.float64),
    )
