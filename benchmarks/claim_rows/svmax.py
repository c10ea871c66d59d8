"""Claims 7 and 8: SVMax at a large learning rate, and with batches smaller than the dimensions."""

from typing import Any

import numpy as np
from claim_rows.row import Row, gaps, listed
from claim_rows.store import Figures
from claim_rows.training import BATCH, Bench, Trained, vectors_of

from submissions.scoring.retrieval import mean_singular_value, recall_at

LARGE = {"kind": "sgd", "learning_rate": 0.5, "clip_norm": 1e6}
WEIGHTS = {"contrastive": 1.0, "triplet": 0.1, "npair": 1.0, "angular": 1.0}  # the paper's λ; 1 where it gives none
PAPER = {
    "contrastive": "figures A3 and A4, plots of R@1",
    "triplet": "figures A3 and A4, plots of R@1",
    "npair": "figures A3 and A4, plots of R@1",
    "angular": "figures A3 and A4, plots of R@1",
}
CAUSES = {
    "triplet": "a small s did not cost recall at this rate",
    "angular": "neither side learns at this rate",
}
PAPER_SMALL = "figure A7, a plot of R@1; s 1.9 → 5.6 of at most 6.8 (figure A9)"
SMALL, WIDE = 24, 128


def rows(bench: Bench) -> list[Row]:
    """A row for each loss at the large rate, table A1's N-pair on raw embeddings at its own rate, and small batches."""
    result = [_row("7", f"SVMax helps {kind} at a large learning rate", PAPER[kind], bench, kind, BATCH, 64) for kind in WEIGHTS]
    claim = "SVMax helps npair on raw embeddings at rate .01"
    result.append(_row("7", claim, "65.5 → 69.7 R@1 (Cars, rate .01; table A1)", bench, "npair", BATCH, 64, raw=True))
    claim = f"SVMax helps where b = {SMALL} < d = {WIDE} (contrastive)"
    small = _row("8", claim, PAPER_SMALL, bench, "contrastive", SMALL, WIDE)
    return [*result, small]


def _row(number: str, claim: str, paper: str, bench: Bench, kind: str, batch: int, dimensions: int, raw: bool = False) -> Row:
    recall: dict[str, list[float]] = {}
    spread: dict[str, list[float]] = {}
    optimizer = LARGE | {"learning_rate": 0.01} if raw else LARGE
    for name, svmax in (("with", {"weight": WEIGHTS[kind]} | ({"normalize": False} if raw else {})), ("without", None)):
        changed: dict[str, Any] = {
            "objective": {"kind": kind} | ({"normalize": False} if raw else {}),
            "sampling": {"kind": "pk", "per_class": 2 if kind in ("npair", "angular") else 4},
            "descriptor": {"backbone": "test_efficientnet", "dimensions": dimensions},
            "optimizer": optimizer,
            "svmax": svmax,
        }
        found = bench.figures(
            f"svmax {kind} {name} {batch}{' raw' * raw}", lambda trained: _measure(bench, trained), batch, **changed
        )
        recall[name], spread[name] = found["recall"], found["spread"]
    unseen = bench.shapes.unseen
    best = max(float(np.mean(runs)) for runs in recall.values())
    return Row(
        number,
        claim,
        paper,
        f"{bench.about} (batches of {batch}), rate {optimizer['learning_rate']:g}, unclipped, {dimensions} dimensions; "
        "R@1 and (s − L)/(U − L) on unseen classes",
        f"R@1 {listed(recall)}; s {listed(spread)}",
        gaps(recall["with"], recall["without"]),
        smallest=0.02,
        learnt=(best, 1 / len(unseen.names), "R@1 of the better side"),
        cause=CAUSES.get(kind, ""),
    )


def _measure(bench: Bench, trained: Trained) -> Figures:
    found, unseen = vectors_of(trained.descriptor, bench.shapes.unseen.images), bench.shapes.unseen
    s, lower, upper = mean_singular_value(found)
    return {"recall": recall_at(found, unseen.labels, (1,))[1], "spread": (s - lower) / (upper - lower)}
