"""What decides whether a query's copy is found: the score of its own reference and that of the nearest wrong one."""

from dataclasses import dataclass, field

import faiss
import numpy as np
from numpy.typing import NDArray

from data.ground_truth import GroundTruth
from submissions.search.exact import exact_distances
from submissions.vectors.files import Vectors


@dataclass(frozen=True)
class QueryScores:
    """Scores −‖q − r‖²; pairs and queries that cannot be read are left out.

    Attributes:
        true: of every true pair (query, reference).
        best_wrong: each query's nearest reference that it does not copy, with its score.
    """

    true: dict[tuple[str, str], float] = field(default_factory=dict)
    best_wrong: dict[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoreGroups:
    """Scores −‖q − r‖² in three groups.

    Attributes:
        true_copies: float64 [n], of true pairs.
        best_wrong: float64 [n], of the best wrong reference of each query with a copy.
        distractors: float64 [n], of the best reference of each query without a copy.
    """

    true_copies: NDArray[np.float64]
    best_wrong: NDArray[np.float64]
    distractors: NDArray[np.float64]


def query_scores(queries: Vectors, references: Vectors, truth: GroundTruth) -> QueryScores:
    """Search every query that the ground truth names among all references; exact scores in float64."""
    chosen = queries.rows(truth.query_ids)
    rows, targets = np.flatnonzero(~chosen.unreadable), np.flatnonzero(~references.unreadable)
    known = set(chosen.ids)
    wanted = {reference for query, reference in truth.pairs if query in known}
    row_of = {image_id: row for row, image_id in enumerate(references.ids) if image_id in wanted}
    own: dict[str, list[int]] = {}
    for query, reference in sorted(truth.pairs):
        if reference in row_of and not references.unreadable[row_of[reference]]:
            own.setdefault(query, []).append(row_of[reference])
    depth = min(len(targets), 1 + max(map(len, own.values()), default=0))
    if not len(rows) or not depth:
        return QueryScores()
    _, nearest = faiss.knn(np.ascontiguousarray(chosen.vectors[rows]), np.ascontiguousarray(references.readable()), depth)
    found = QueryScores()
    for row, candidates in zip(rows.tolist(), targets[nearest], strict=True):
        query = chosen.ids[row]
        copied = own.get(query, [])
        wrong = [candidate for candidate in candidates.tolist() if candidate not in copied][:1]
        pairs = np.array(copied + wrong, dtype=np.int64)
        scores = (-exact_distances(chosen.vectors, references.vectors, np.full(len(pairs), row), pairs)).tolist()
        for reference_row, score in zip(copied, scores, strict=False):
            found.true[query, references.ids[reference_row]] = score
        if wrong:
            found.best_wrong[query] = (references.ids[wrong[0]], scores[-1])
    return found


def score_groups(scores: QueryScores, truth: GroundTruth) -> ScoreGroups:
    """The scores as three groups; a query with several copies counts each of them."""
    copying = {query for query, _ in truth.pairs}
    wrong = [(query, score) for query, (_, score) in scores.best_wrong.items()]
    return ScoreGroups(
        true_copies=np.array(list(scores.true.values()), dtype=np.float64),
        best_wrong=np.array([score for query, score in wrong if query in copying], dtype=np.float64),
        distractors=np.array([score for query, score in wrong if query not in copying], dtype=np.float64),
    )
