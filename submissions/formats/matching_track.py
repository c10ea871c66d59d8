"""The matching track's CSV: `query_id,reference_id,score`, at most 500,000 rows; a higher score means a more certain copy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from image_copies.data.errors import UserError
from image_copies.data.files import open_regular
from image_copies.data.ground_truth import GroundTruth, write_table
from image_copies.data.targets import begins_with
from image_copies.submissions.scoring.metrics import RankedPairs, Scores, make_ranking, make_scores, search_readable
from image_copies.submissions.vectors.files import Vectors, VectorSet

CSV_COLUMNS = ["query_id", "reference_id", "score"]
MAX_ROWS = 500_000
is_matching_track = begins_with(",".join(CSV_COLUMNS).encode())


def write_matches(path: Path, queries: Vectors, references: VectorSet, per_query: int = 10) -> int:
    """Write the nearest pairs overall with the score −‖q − r‖²: `per_query` × the number of queries, at most MAX_ROWS.

    The number of rows is returned.

    Raises:
        UserError: when the disk is full.
    """
    count = min(MAX_ROWS, per_query * len(queries))
    pairs = search_readable(queries, references, count)
    columns = (part[:count].tolist() for part in (pairs.queries, pairs.references, -pairs.distances))
    found = [(queries.ids[query], references.ids[reference], score) for query, reference, score in zip(*columns, strict=True)]
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
    table = read_matches(path)
    _check_ids(path, table, truth)
    table = table[table["query_id"].isin(set(truth.query_ids))]
    table = table.sort_values("score", ascending=False, kind="stable").drop_duplicates(["query_id", "reference_id"])
    names = list(zip(table["query_id"], table["reference_id"], strict=True))
    true = np.array([name in truth.pairs for name in names], dtype=bool)
    order = np.lexsort((true, -table["score"].to_numpy()))
    ranked = make_ranking([names[row] for row in order], -table["score"].to_numpy(np.float64)[order], true[order], truth)
    at_ranks = [_recall_at_rank(ranked, truth, rank) for rank in (1, 10)]
    return make_scores(ranked, at_ranks, len(set(table["reference_id"])), truth), ranked


def _check_ids(path: Path, table: pd.DataFrame, truth: GroundTruth) -> None:
    """Check that a file with rows can belong to this ground truth: it may lack pairs, but not every id."""
    references = {reference for _, reference in truth.pairs}
    for kind, found, named in (
        ("queries", table["query_id"], set(truth.query_ids)),
        ("references", table["reference_id"], references),
    ):
        if len(table) and named and not found.isin(named).any():
            raise UserError(
                f"{path}: none of its {found.nunique()} {kind}, such as {found.iloc[0]!r}, is among the {len(named)} that the "
                f"ground truth names, such as {min(named)!r}. Give the ground truth of the data set that the file was made from."
            )


def read_matches(path: Path) -> pd.DataFrame:
    """Read a matching-track file, in the order of its lines; ids are str, scores float.

    Raises:
        UserError: when the file is missing or unreadable, has other columns, a score that is not a finite number, or more than
            MAX_ROWS rows.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give a CSV with the columns {','.join(CSV_COLUMNS)}.")
    try:
        with open_regular(path) as file:
            table = pd.read_csv(file, dtype={"query_id": str, "reference_id": str}, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as CSV ({error}). Expected the columns {','.join(CSV_COLUMNS)}.") from error
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes a surplus column for row labels
        raise UserError(f"{path} has lines with more than the three values {','.join(CSV_COLUMNS)}. Remove the others.")
    if list(table.columns) != CSV_COLUMNS:
        raise UserError(
            f"{path} has the columns {','.join(map(str, table.columns))}; expected {','.join(CSV_COLUMNS)}. Correct its header."
        )
    if len(table) > MAX_ROWS:
        raise UserError(
            f"{path} has {len(table):,} rows; the matching track allows {MAX_ROWS:,}. Keep those with the highest scores."
        )
    scores = table["score"]
    scores = scores.astype(str) if scores.dtype == object else scores  # pandas keeps integers beyond int64 as objects
    numbers = pd.to_numeric(scores, errors="coerce").astype(np.float64)
    if not np.isfinite(numbers.to_numpy()).all():
        row = int(np.argmin(np.isfinite(numbers.to_numpy())))
        raise UserError(
            f"{path}, line {row + 2}: the score {table['score'].iloc[row]!r} is not a finite number. Correct or remove the line."
        )
    return table.assign(score=numbers.astype(float))


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
