"""Each query's score with its true references and with its nearest wrong one: what decides whether a copy is found."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from image_copies.data.ground_truth import GroundTruth
from image_copies.submissions.scoring.metrics import compare_with_truth
from image_copies.submissions.vectors.files import Vectors, VectorSet


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


def score_queries(queries: Vectors, references: VectorSet, truth: GroundTruth) -> QueryScores:
    """Search every query that the ground truth names among all references; scores are computed in float64.

    Raises:
        UserError: when the ground truth names a query without a vector.
    """
    found = QueryScores()
    for each in compare_with_truth(queries.rows(truth.query_ids), references, truth, 1):
        scores = (-each.distances).tolist()
        pairs = ((each.query, reference) for reference in each.references[: each.true])
        found.true.update(zip(pairs, scores, strict=False))
        if len(scores) > each.true:
            found.best_wrong[each.query] = (each.references[-1], scores[-1])
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
