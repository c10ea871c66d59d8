"""Claims 7 and 8: SVMax at a large learning rate, and with batches smaller than the dimensions."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from claim_rows.row import Row, format_sides, subtract_runs
from claim_rows.store import Figures
from claim_rows.training import BACKBONE, BATCH_SIZE, IMAGE_SIDE, VERSION, Bench, Trained, vectors_of
from torch.nn import functional

from models.network.descriptor import Descriptor
from models.network.settings import DescriptorSettings
from models.objectives import svmax as objectives
from submissions.scoring.retrieval import mean_singular_value, recall_at

LARGE_RATE_OPTIMIZER: dict[str, Any] = {"kind": "sgd", "learning_rate": 0.5, "clip_norm": 1e6}
WEIGHTS = {"contrastive": 1.0, "triplet": 0.1, "npair": 1.0, "angular": 1.0}  # the paper's λ; 1 where it gives none
PAPER = {
    "contrastive": "figures A3 and A4, plots of R@1",
    "triplet": "figures A3 and A4, plots of R@1",
    "npair": "figures A3 and A4, plots of R@1",
    "angular": "figures A3 and A4, plots of R@1",
}
LIKELY_CAUSES = {
    "triplet": "a small s did not cost recall at this rate",
    "angular": "neither side learns at this rate",
}
PAPER_SMALL = "figure A7, a plot of R@1; s 1.9 → 5.6 of at most 6.8 (figure A9)"
SMALL_BATCH, WIDE_DIMENSIONS = 24, 128
DIMENSIONS = 64
SIZES = ((96, 128), (96, 32), (24, 128), (24, 32))  # b × d in the ratios of figures A5 and A6: 288 and 72 × 256 and 64
SMALLER_RATES = (0.01, 0.1)  # beside the large one
COST_SIZES, MAX_COST_SHARE = ((24, 32), (48, 64), (96, 128)), 0.1  # b × d; share of a step that the regulariser may take
TIMING_REPEATS = 7  # of each timing, of which the median counts


@dataclass(frozen=True)
class Setting:
    """What the sides of a comparison share.

    Attributes:
        kind: Objective.
        batch: Images in a batch, b.
        dimensions: Of the embedding, d.
        rate: Learning rate.
        raw: Whether embeddings are not made unit vectors.
    """

    kind: str
    batch: int = BATCH_SIZE
    dimensions: int = DIMENSIONS
    rate: float = LARGE_RATE_OPTIMIZER["learning_rate"]
    raw: bool = False


def rows(bench: Bench) -> list[Row]:
    """Each loss at the large rate, table A1's raw N-pair, the spread-out baseline, the sweeps of rate and sizes, and the cost."""
    result = [_row("7", f"SVMax helps {kind} at a large learning rate", PAPER[kind], bench, Setting(kind)) for kind in WEIGHTS]
    claim = "SVMax helps npair on raw embeddings at rate .01"
    raw = Setting("npair", rate=0.01, raw=True)
    result.append(_row("7", claim, "65.5 → 69.7 R@1 (Cars, rate .01; table A1)", bench, raw))
    for kind in WEIGHTS:
        claim = f"SVMax beats the spread-out regulariser with {kind} at a large learning rate"
        result.append(_row("7b", claim, PAPER[kind], bench, Setting(kind), "spread_out"))
    for kind, rate in itertools.product(("contrastive", "triplet"), SMALLER_RATES):
        claim = f"SVMax helps {kind} at rate {rate:g}"
        result.append(_row("7c", claim, "figures A3 and A4, plots of R@1 by rate", bench, Setting(kind, rate=rate)))
    claim = f"SVMax helps where b = {SMALL_BATCH} < d = {WIDE_DIMENSIONS} (contrastive)"
    result.append(_row("8", claim, PAPER_SMALL, bench, Setting("contrastive", SMALL_BATCH, WIDE_DIMENSIONS)))
    for kind, (batch, dimensions) in itertools.product(("contrastive", "triplet"), SIZES):
        claim = f"SVMax helps {kind} with b = {batch}, d = {dimensions}"
        paper = "figures A5 and A6, plots of R@1 for b 288 and 72, d 256 and 64"
        result.append(_row("8b", claim, paper, bench, Setting(kind, batch, dimensions)))
    return [*result, _cost(bench)]


def _row(number: str, claim: str, paper: str, bench: Bench, setting: Setting, baseline: str | None = None) -> Row:
    """Compare SVMax with no regulariser, or with that of another form."""
    sides = {"with": "bounded", "without": None} if baseline is None else {"SVMax": "bounded", "spread-out": baseline}
    found = {name: _arm(bench, setting, form) for name, form in sides.items()}
    recall, spread = ({name: arm[figure] for name, arm in found.items()} for figure in ("recall", "spread"))
    better, worse = recall.values()
    best = max(float(np.mean(runs)) for runs in recall.values())
    return Row(
        number,
        claim,
        paper,
        f"{bench.about} (batches of {setting.batch}), rate {setting.rate:g}, unclipped, {setting.dimensions} dimensions; "
        "R@1 and (s − L)/(U − L) on unseen classes",
        f"R@1 {format_sides(recall)}; s {format_sides(spread)}",
        subtract_runs(better, worse),
        smallest=0.02,
        learnt=(best, 1 / len(bench.shapes.unseen.names), "R@1 of the better side"),
        cause=LIKELY_CAUSES.get(setting.kind, "") if baseline is None else "",
    )


def _arm(bench: Bench, setting: Setting, form: str | None) -> dict[str, list[float]]:
    """Train with a form of the regulariser, or without any."""
    kind, of_raw = setting.kind, {"normalize": False} if setting.raw else {}
    weight = {"weight": WEIGHTS[kind] if form == "bounded" else 1.0}
    name = f"svmax {kind} {form} {setting.batch} {setting.dimensions} {setting.rate:g}{' raw' * setting.raw}"
    changed: dict[str, Any] = {
        "objective": {"kind": kind} | of_raw,
        "sampling": {"kind": "pk", "per_class": 2 if kind in ("npair", "angular") else 4},
        "descriptor": {"backbone": BACKBONE, "dimensions": setting.dimensions},
        "optimizer": LARGE_RATE_OPTIMIZER | {"learning_rate": setting.rate},
        "svmax": None if form is None else {"form": form} | weight | of_raw,
    }
    return bench.figures(name, lambda trained: _measure(bench, trained), setting.batch, **changed)


def _cost(bench: Bench) -> Row:
    """Figure A10: the processor time of the regulariser and its gradient as a share of the network's pass."""
    about = {"bench": VERSION, "sizes": COST_SIZES, "image size": IMAGE_SIDE, "repeats": TIMING_REPEATS}
    runs = bench.store.measure("svmax cost", about, bench.seeds, _time_regulariser)
    shares = {figure: [run[figure] for run in runs] for figure in runs[0]}
    worst = np.max(list(shares.values()), axis=0)
    return Row(
        "8c",
        f"SVMax adds less than {MAX_COST_SHARE:.0%} to a training step",
        "figure A10, plots of seconds: minimal",
        f"{BACKBONE} at {IMAGE_SIDE} px, forward and backward pass, median processor time of "
        f"{TIMING_REPEATS}, {len(bench.seeds)} rounds",
        "share of the pass: " + format_sides(shares),
        tuple(float(MAX_COST_SHARE - share) for share in worst),
        smallest=0.02,
        cause="so small a network's pass is short",
    )


def _time_regulariser(seed: int) -> Figures:
    torch.manual_seed(seed)
    shares: Figures = {}
    for batch, dimensions in COST_SIZES:
        network = Descriptor(DescriptorSettings(backbone=BACKBONE, dimensions=dimensions)).train()
        images, rows = torch.randn(batch, 3, IMAGE_SIDE, IMAGE_SIDE), torch.randn(batch, dimensions, requires_grad=True)

        def penalize(rows: torch.Tensor = rows) -> None:
            objectives.mean_singular_value(functional.normalize(rows)).backward()

        def learn(network: Descriptor = network, images: torch.Tensor = images) -> None:
            network(images, raw=True).sum().backward()

        shares[f"b {batch}, d {dimensions}"] = _median_seconds(penalize) / _median_seconds(learn)
    return shares


def _median_seconds(work: Callable[[], None]) -> float:
    """Return the processor time after a first call that warms up."""
    seconds = []
    for _ in range(TIMING_REPEATS + 1):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return float(np.median(seconds[1:]))


def _measure(bench: Bench, trained: Trained) -> Figures:
    found, unseen = vectors_of(trained.descriptor, bench.shapes.unseen.images), bench.shapes.unseen
    s, lower, upper = mean_singular_value(found)
    return {"recall": recall_at(found, unseen.labels, (1,))[1], "spread": (s - lower) / (upper - lower)}
