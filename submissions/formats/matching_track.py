"""The matching track's CSV: `query_id,reference_id,score`, at most 500,000 rows; a higher score means a more certain copy."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_table, write_table

from ..scoring.metrics import RankedPairs, Scores, make_ranking, make_scores, search_readable
from ..vectors.files import Vectors, VectorSet

CSV_COLUMNS = ["query_id", "reference_id", "score"]
MAX_ROWS = 500_000


def write_matches(path: Path, queries: Vectors, references: VectorSet, per_query: int = 10) -> int:
    """Write the nearest pairs overall with the score −‖q − r‖²: `per_query` × the number of queries, at most MAX_ROWS.

    The number of rows is returned.

    Raises:
        UserError: when the disk is full.
    """
    count = min(MAX_ROWS, per_query * len(queries))
    pairs = search_readable(queries, references, count)
    columns = (part[:count].tolist() for part in (pairs.queries, pairs.references, -pairs.distances))
    found = [
        (queries.ids[query], references.ids[reference], score)
        for query, reference, score in zip(*columns, strict=True)
    ]
    return write_pairs(path, found)


def write_pairs(path: Path, pairs: Sequence[tuple[str, str, float]]) -> int:
    """Write pairs (query id, reference id, score), highest score first and at most MAX_ROWS; return the number of rows.

    Raises:
        UserError: when the disk is full.
    """
    rows = sorted(pairs, key=lambda pair: -pair[2])[:MAX_ROWS]
    write_table(path, CSV_COLUMNS, rows)
    return len(rows)


def evaluate_matches(path: Path, truth: GroundTruth) -> tuple[Scores, RankedPairs]:
    """Score a matching-track file; the scores' `references` counts the different references of the file.

    Queries that the ground truth does not name are ignored; a repeated pair counts once, with its highest score; among equal
    scores, false pairs rank first.

    Raises:
        UserError: when the file is missing or unreadable, has other columns, a score that is not a finite number, or more than
            MAX_ROWS rows, or none of its queries or references is one of the ground truth.
    """
    pairs = read_matches(path)
    _check_ids(path, pairs, truth)
    asked = set(truth.query_ids)
    best: dict[tuple[str, str], float] = {}
    for query, reference, score in pairs:
        if query in asked:
            best[query, reference] = max(score, best.get((query, reference), score))
    names = list(best)
    distances = -np.array(list(best.values()), np.float64)
    true = np.array([name in truth.pairs for name in names], dtype=bool)
    order = np.lexsort((true, distances))
    ranked = make_ranking([names[row] for row in order], distances[order], true[order], truth)
    at_ranks = [_recall_at_rank(ranked, truth, rank) for rank in (1, 10)]
    return make_scores(ranked, at_ranks, len({reference for _, reference in names}), truth), ranked


def _check_ids(path: Path, pairs: Sequence[tuple[str, str, float]], truth: GroundTruth) -> None:
    """Check that a file with rows can belong to this ground truth: it may lack pairs, but not every id."""
    references = {reference for _, reference in truth.pairs}
    for kind, found, named in (
        ("queries", [query for query, _, _ in pairs], set(truth.query_ids)),
        ("references", [reference for _, reference, _ in pairs], references),
    ):
        if found and named and named.isdisjoint(found):
            raise UserError(
                f"{path}: none of its {len(set(found))} {kind}, such as {found[0]!r}, is among the {len(named)} that the "
                f"ground truth names, such as {min(named)!r}. Give the ground truth of the data set that the file was made from."
            )


def read_matches(path: Path) -> list[tuple[str, str, float]]:
    """Read a matching-track file: query id, reference id and score of each line, in their order.

    Raises:
        UserError: when the file is missing or unreadable, has other columns, a score that is not a finite number, or more than
            MAX_ROWS rows.
    """
    rows = read_table(path, CSV_COLUMNS, f"a CSV with the columns {','.join(CSV_COLUMNS)}")
    if len(rows) > MAX_ROWS:
        raise UserError(
            f"{path} has {len(rows):,} rows; the matching track allows {MAX_ROWS:,}. Keep those with the highest scores."
        )
    pairs = []
    for number, (query, reference, score) in enumerate(rows, 2):
        value = _parse_score(score)
        if not math.isfinite(value):
            raise UserError(
                f"{path}, line {number}: the score {score!r} is not a finite number. Correct or remove the line."
            )
        pairs.append((query, reference, value))
    return pairs


def _parse_score(text: str) -> float:
    """Return the number, NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _recall_at_rank(ranked: RankedPairs, truth: GroundTruth, rank: int) -> float:
    """Return the share of true pairs with fewer than `rank` false pairs of the same query at the same or a higher score."""
    false_before: dict[str, int] = {}
    hits = 0
    for query_id, true in zip(ranked.query_ids, ranked.true, strict=True):
        if true:
            hits += false_before.get(query_id, 0) < rank
        else:
            false_before[query_id] = false_before.get(query_id, 0) + 1
    return hits / max(len(truth.pairs), 1)
