"""The challenge's metrics: micro average precision, recall, and bootstrap intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from image_copies.data.arrays import Bools, Float64s
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth

from ..search.neighbours import Neighbours, ScoredPairs, compute_exact_distances
from ..vectors.files import Vectors, VectorSet, take_rows

PAIRS_PER_QUERY = 10  # the organisers keep 10 × (number of queries) pairs


@dataclass(frozen=True)
class Scores:
    """The challenge's metrics, each 0…1, and what they were computed from."""

    micro_average_precision: float
    recall_at_precision_90: float  # highest recall at a precision of at least 90 %
    recall_at_rank_1: (
        float  # share of true pairs whose reference is nearer to the query than every wrong one
    )
    recall_at_rank_10: float  # share of true pairs with fewer than ten wrong references at most as far
    queries: int  # that the ground truth names
    references: int  # searched
    true_pairs: int

    def as_dict(self) -> dict[str, float | int]:
        """Return the fields by name, as they are written to `scores.json`."""
        return asdict(self)


@dataclass(frozen=True)
class RankedPairs:
    """The pairs that count, best first."""

    query_ids: list[str]  # [m]
    reference_ids: list[str]  # [m]
    distances: Float64s  # squared Euclidean [m]
    true: Bools  # [m], whether each pair is a copy
    precision: Float64s  # of the ranking down to each pair [m]
    recall: Float64s  # of the ranking down to each pair [m]


def evaluate(
    queries: Vectors, references: VectorSet, ground_truth: GroundTruth
) -> tuple[Scores, RankedPairs]:
    """Score vectors against a ground truth; ten times as many pairs are ranked as there are queries.

    Only queries that the ground truth names count, and each of them needs a vector.

    Raises:
        UserError: when the ground truth names unknown ids.
    """
    _check_ids(queries, references, ground_truth)
    chosen = queries.rows(ground_truth.query_ids)
    pairs = search_readable(chosen, references, PAIRS_PER_QUERY * len(chosen))
    ranked = rank_pairs(pairs, chosen.ids, references.ids, ground_truth)
    at_ranks = _recall_at_ranks(chosen, references, ground_truth, (1, 10))
    return make_scores(ranked, at_ranks, len(references), ground_truth), ranked


def make_scores(
    ranked: RankedPairs, at_ranks: Sequence[float], references: int, ground_truth: GroundTruth
) -> Scores:
    """Return the scores of a ranking, with recall at rank 1 and 10, and the number of references that were searched."""
    return Scores(
        micro_average_precision=average_precision(ranked),
        recall_at_precision_90=recall_at_precision(ranked, 0.9),
        recall_at_rank_1=at_ranks[0],
        recall_at_rank_10=at_ranks[1],
        queries=len(ground_truth.query_ids),
        references=references,
        true_pairs=len(ground_truth.pairs),
    )


def rank_pairs(
    pairs: ScoredPairs, query_ids: list[str], reference_ids: list[str], ground_truth: GroundTruth
) -> RankedPairs:
    """Rank pairs by distance, false before true where distances are equal; ten times as many are kept as there are queries.

    The pairs include all that tie with the last; ids are those of the rows.
    """
    true = _is_true(pairs, query_ids, reference_ids, ground_truth)
    order = np.lexsort((true, pairs.distances))[: PAIRS_PER_QUERY * len(ground_truth.query_ids)]
    rows = zip(pairs.queries[order].tolist(), pairs.references[order].tolist(), strict=True)
    names = [(query_ids[query], reference_ids[reference]) for query, reference in rows]
    return make_ranking(names, pairs.distances[order], true[order], ground_truth)


def make_ranking(
    pairs: Sequence[tuple[str, str]],
    distances: Float64s,
    true: Bools,
    ground_truth: GroundTruth,
) -> RankedPairs:
    """Return the ranking of pairs of ids [m] given best first, with their distances [m] and whether each is true [m]."""
    found = np.cumsum(true)
    return RankedPairs(
        query_ids=[query for query, _ in pairs],
        reference_ids=[reference for _, reference in pairs],
        distances=distances,
        true=true,
        precision=found / np.arange(1, len(true) + 1),
        recall=found / max(len(ground_truth.pairs), 1),
    )


def _is_true(
    pairs: ScoredPairs, query_ids: list[str], reference_ids: list[str], ground_truth: GroundTruth
) -> Bools:
    """Return which pairs are true, bool [m]; compares row numbers, because comparing half a million pairs of strings is slow."""
    copied = {reference for _, reference in ground_truth.pairs}
    query_row = {image_id: row for row, image_id in enumerate(query_ids)}
    reference_row = {image_id: row for row, image_id in enumerate(reference_ids) if image_id in copied}
    known = [
        (query_row[q], reference_row[r])
        for q, r in ground_truth.pairs
        if q in query_row and r in reference_row
    ]
    width = max(len(reference_ids), 1)
    codes = np.array([query * width + reference for query, reference in known], dtype=np.int64)
    return np.isin(pairs.queries * width + pairs.references, codes)


def average_precision(ranked: RankedPairs) -> float:
    """Compute µAP = Σ (recall_i − recall_{i−1}) · precision_i."""
    return float(np.sum(np.diff(ranked.recall, prepend=0.0) * ranked.precision))


def recall_at_precision(ranked: RankedPairs, precision: float) -> float:
    """Return the highest recall at any rank whose precision is at least `precision`, 0…1; 0 if there is none."""
    return float(ranked.recall[ranked.precision >= precision].max(initial=0.0))


def _check_ids(queries: Vectors, references: VectorSet, ground_truth: GroundTruth) -> None:
    known = set(queries.ids)
    missing = [image_id for image_id in ground_truth.query_ids if image_id not in known]
    if missing:
        raise UserError(
            f"the ground truth names {len(missing)} queries that the submission lacks, the first is {missing[0]!r}. "
            "Give the ground truth of the data set that the submission was made from."
        )
    known = set(references.ids)
    unknown = sorted({reference for _, reference in ground_truth.pairs if reference not in known})
    if unknown:
        raise UserError(
            f"the ground truth names {len(unknown)} references that the submission lacks, the first is {unknown[0]!r}. "
            "Give the ground truth of the data set that the submission was made from."
        )


def search_readable(queries: Vectors, references: VectorSet, count: int) -> ScoredPairs:
    """Search among readable images only; return the nearest pairs with their row numbers in `queries` and `references`."""
    query_rows = np.flatnonzero(~queries.unreadable)
    reference_rows = np.flatnonzero(~references.unreadable)
    pairs = Neighbours(references.readable()).closest(queries.readable(), count)
    return ScoredPairs(query_rows[pairs.queries], reference_rows[pairs.references], pairs.distances)


def _recall_at_ranks(
    queries: Vectors, references: VectorSet, ground_truth: GroundTruth, ranks: tuple[int, ...]
) -> list[float]:
    """Return, for each rank, the share of true pairs with fewer than `rank` wrong references at most as far away."""
    copies = queries.rows(sorted({query for query, _ in ground_truth.pairs}))
    hits = np.zeros(len(ranks))
    for right, wrong in _compare_with_truth(copies, references, ground_truth, max(ranks)):
        for distance in right:
            hits += (wrong <= distance).sum() < np.array(ranks)
    return [float(hit) / max(len(ground_truth.pairs), 1) for hit in hits]


def _compare_with_truth(
    queries: Vectors, references: VectorSet, ground_truth: GroundTruth, wrong: int
) -> Iterator[tuple[Float64s, Float64s]]:
    """Yield each readable query's squared distances to the readable references that it copies, and to the nearest others."""
    copied = {reference for _, reference in ground_truth.pairs}
    own = dict[str, list[int]]()
    readable = np.flatnonzero(~references.unreadable).tolist()
    searched = references.readable()
    numbers = {
        references.ids[row]: number for number, row in enumerate(readable) if references.ids[row] in copied
    }
    for query, reference in sorted(ground_truth.pairs):
        if reference in numbers:
            own.setdefault(query, []).append(numbers[reference])
    rows = np.flatnonzero(~queries.unreadable)
    depth = min(len(searched), wrong + max(map(len, own.values()), default=0))
    if not len(rows) or not depth:
        return
    nearest = Neighbours(searched).nearest(queries.vectors[rows], depth).rows
    looked_up = np.unique(np.concatenate([nearest.ravel(), np.array(list(numbers.values()), np.int64)]))
    vectors = take_rows(searched, looked_up)
    for row, candidates in zip(rows.tolist(), nearest, strict=True):
        true = own.get(queries.ids[row], [])
        found = np.concatenate([np.array(true, np.int64), candidates[~np.isin(candidates, true)][:wrong]])
        places = np.searchsorted(looked_up, found)
        distances = compute_exact_distances(queries.vectors, vectors, np.full(len(found), row), places)
        yield distances[: len(true)], distances[len(true) :]


RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % bootstrap interval."""

    value: float  # on all queries
    low: float  # 2.5th percentile of the resamples
    high: float  # 97.5th


def micro_average_precision_interval(
    ranked: RankedPairs, truth: GroundTruth, seed: int = 0, draws: int = RESAMPLES
) -> Interval:
    """Compute µAP with its 95 % interval.

    Each of the resamples draws as many queries as there are, with replacement, and keeps all pairs of each.
    """
    return _estimate_interval(average_precision(ranked), _draw_scores(ranked, truth, seed, draws))


def difference_interval(
    first: RankedPairs, second: RankedPairs, truth: GroundTruth, seed: int = 0, draws: int = RESAMPLES
) -> Interval:
    """Compute µAP of `second` minus µAP of `first` with its 95 % interval, both on the same `draws` resamples of the queries."""
    values = _draw_scores(second, truth, seed, draws) - _draw_scores(first, truth, seed, draws)
    return _estimate_interval(average_precision(second) - average_precision(first), values)


def _draw_scores(ranked: RankedPairs, truth: GroundTruth, seed: int, draws: int) -> Float64s:
    """Compute µAP of resamples: one that holds query i times[i] times has its ranked and its true pairs as often."""
    row = {query_id: number for number, query_id in enumerate(truth.query_ids)}
    rows = np.array([row[query_id] for query_id in ranked.query_ids], np.int64)
    copies = np.bincount(np.array([row[query] for query, _ in truth.pairs], np.int64), minlength=len(row))
    rng = np.random.default_rng(seed)
    scores = np.zeros(draws)
    for draw in range(draws):
        times = rng.multinomial(len(row), np.full(len(row), 1 / len(row)))
        own = times[rows].astype(np.float64)
        hits = own * ranked.true
        found, seen = np.cumsum(hits), np.cumsum(own)
        precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
        if true_pairs := float(times @ copies):
            scores[draw] = float((hits * precision).sum() / true_pairs)
    return scores


def _estimate_interval(value: float, draws: Float64s) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high))
