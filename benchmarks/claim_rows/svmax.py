"""Claims 7 and 8: SVMax at a large learning rate, and with batches smaller than the dimensions."""

from typing import Any

from claim_rows.row import Row, gaps, listed
from claim_rows.training import BATCH, Bench, train, vectors_of

from submissions.scoring.retrieval import mean_singular_value, recall_at

LARGE = {"kind": "sgd", "learning_rate": 0.5, "clip_norm": 1e6}
WEIGHTS = {"contrastive": 1.0, "triplet": 0.1, "npair": 1.0, "angular": 1.0}  # the paper's λ; 1 where it gives none
PAPER = {
    "contrastive": "figures A3 and A4, plots of R@1",
    "triplet": "figures A3 and A4, plots of R@1",
    "npair": "65.5 → 69.7 R@1 (Cars, rate .01; table A1)",
    "angular": "figures A3 and A4, plots of R@1",
}
CAUSES = {
    "triplet": "a small s did not cost recall at this rate",
    "angular": "neither side learns at this rate",
}
PAPER_SMALL = "figure A7, a plot of R@1; s 1.9 → 5.6 of at most 6.8 (figure A9)"
SMALL, WIDE = 24, 128


def rows(bench: Bench) -> list[Row]:
    result = [_row("7", f"SVMax helps {kind} at a large learning rate", PAPER[kind], bench, kind, BATCH, 64) for kind in WEIGHTS]
    claim = f"SVMax helps where b = {SMALL} < d = {WIDE} (contrastive)"
    small = _row("8", claim, PAPER_SMALL, bench, "contrastive", SMALL, WIDE)
    return [*result, small]


def _row(number: str, claim: str, paper: str, bench: Bench, kind: str, batch: int, dimensions: int) -> Row:
    recall: dict[str, list[float]] = {"with": [], "without": []}
    spread: dict[str, list[float]] = {"with": [], "without": []}
    per_class = 2 if kind in ("npair", "angular") else 4
    for name, svmax in (("with", {"weight": WEIGHTS[kind]}), ("without", None)):
        for seed in bench.seeds:
            changed: dict[str, Any] = {
                "objective": {"kind": kind},
                "sampling": {"kind": "pk", "per_class": per_class},
                "descriptor": {"backbone": "test_efficientnet", "dimensions": dimensions},
                "optimizer": LARGE,
                "svmax": svmax,
            }
            trained = train(bench, f"svmax-{kind}-{name}-{batch}", seed, batch, **changed)
            found = vectors_of(trained.descriptor, bench.shapes.unseen.images)
            recall[name].append(recall_at(found, bench.shapes.unseen.labels, (1,))[1])
            s, lower, upper = mean_singular_value(found)
            spread[name].append((s - lower) / (upper - lower))
    return Row(
        number,
        claim,
        paper,
        f"{bench.about} (batches of {batch}), rate .5, unclipped, {dimensions} dimensions; "
        "R@1 and (s − L)/(U − L) on unseen classes",
        f"R@1 {listed(recall)}; s {listed(spread)}",
        gaps(recall["with"], recall["without"]),
        CAUSES.get(kind, "too few steps for a difference"),
    )
