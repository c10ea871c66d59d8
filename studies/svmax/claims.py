"""Claims 7 and 8: SVMax at a large learning rate, and with batches smaller than the dimensions."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from image_copies.data.preprocessing import PreprocessedImages
from image_copies.models.inference.protocols import embed_shown
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.collapse import describe_spread

from ..claims.claim import Arm, Claim, Comparison, Figures, Measured, Side
from ..claims.row import Difference, Row, format_sides
from ..claims.training import DIMENSIONS, VERSION, Bench, Trained
from ..multigrain.metrics import recall_at
from .objective import mean_singular_value

LARGE_RATE_OPTIMIZER: dict[str, Any] = {"kind": "sgd", "learning_rate": 0.5, "clip_norm": 1e6}
# the paper's λ; 1 where it gives none
WEIGHTS = {"contrastive": 1.0, "triplet": 0.1, "npair": 1.0, "angular": 1.0}
PAPER = "figures A3 and A4, plots of R@1"
PAPER_RAW = "65.5 → 69.7 R@1 (Cars, rate .01; table A1)"
PAPER_SIZES = "figures A5 and A6, plots of R@1 for b 288 and 72, d 256 and 64"
LIKELY_CAUSES = {"triplet": "a small s did not cost recall at this rate"}
PAPER_SMALL = "figure A7, a plot of R@1; s 1.9 → 5.6 of at most 6.8 (figure A9)"
BATCH_SIZE = 48
SMALL_BATCH = 24
WIDE_DIMENSIONS = 128
# b × d in the ratios of figures A5 and A6: 288 and 72 × 256 and 64
SIZES = ((96, 128), (96, 32), (24, 128), (24, 32))
# b × d; share of a step that the regulariser may take
COST_SIZES = ((24, 32), (48, 64), (96, 128))
MAX_COST_SHARE = 0.1
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


def list_claims(bench: Bench) -> list[Claim]:
    """Each loss at the large rate, table A1's raw N-pair, the small batch, the sweep of sizes, and the cost."""
    claims = [
        _helps("7", f"SVMax helps {kind} at a large learning rate", PAPER, bench, Setting(kind))
        for kind in WEIGHTS
    ]
    raw = Setting("npair", rate=0.01, raw=True)
    claims.append(_helps("7", "SVMax helps npair on raw embeddings at rate .01", PAPER_RAW, bench, raw))
    claim = f"SVMax helps where b = {SMALL_BATCH} < d = {WIDE_DIMENSIONS} (contrastive)"
    claims.append(
        _helps("8", claim, PAPER_SMALL, bench, Setting("contrastive", SMALL_BATCH, WIDE_DIMENSIONS))
    )
    for kind, (batch, dimensions) in itertools.product(("contrastive", "triplet"), SIZES):
        claim = f"SVMax helps {kind} with b = {batch}, d = {dimensions}"
        claims.append(_helps("8b", claim, PAPER_SIZES, bench, Setting(kind, batch, dimensions)))
    return [*claims, _cost(bench)]


def _helps(number: str, claim: str, paper: str, bench: Bench, setting: Setting) -> Claim:
    """Compare SVMax with no regulariser."""
    better, worse = (
        Side(name, _train(bench, setting, form), "recall")
        for name, form in (("with", "bounded"), ("without", None))
    )

    def show_spread(measured: Measured) -> str:
        return "s " + format_sides(
            {side.label: measured[side.arm.name]["spread"] for side in (better, worse)}
        )

    return Comparison(
        number,
        claim,
        paper,
        f"{bench.about} (batches of {setting.batch}), rate {setting.rate:g}, unclipped, {setting.dimensions} dimensions; "
        "R@1 and (s − L)/(U − L) on unseen classes",
        better,
        worse,
        smallest=0.02,
        chance=(1 / bench.classes[1], "R@1"),
        note=show_spread,
        cause=LIKELY_CAUSES.get(setting.kind, ""),
    ).as_claim()


def _train(bench: Bench, setting: Setting, form: str | None) -> Arm:
    """Train with a form of the regulariser, or without any."""
    kind = setting.kind
    of_raw = {"normalize": False} if setting.raw else {}
    return bench.arm(
        f"svmax {kind} {form} {setting.batch} {setting.dimensions} {setting.rate:g}{' raw' * setting.raw}",
        _measure,
        batch=setting.batch,
        objective={"kind": kind} | of_raw,
        sampling={"kind": "pk", "per_class": 2 if kind in ("npair", "angular") else 4},
        descriptor={"dimensions": setting.dimensions, "pooling_exponent": 1.0},
        optimizer=LARGE_RATE_OPTIMIZER | {"learning_rate": setting.rate},
        svmax=None if form is None else {"form": form, "weight": WEIGHTS[kind]} | of_raw,
    )


def _cost(bench: Bench) -> Claim:
    """Figure A10: the processor time of the regulariser and its gradient as a share of the network's pass."""
    backbone, side = bench.descriptor["backbone"], bench.side
    about = {"bench": VERSION, "sizes": COST_SIZES, "image size": side, "repeats": TIMING_REPEATS}
    timed = Arm("svmax cost", about, lambda seed: _time_regulariser(seed, backbone, side))
    text = f"SVMax adds less than {MAX_COST_SHARE:.0%} to a training step"

    def judge(measured: Measured) -> Row:
        shares = measured[timed.name]
        return Row(
            "8c",
            text,
            "figure A10, right: plots of seconds, minimal",
            f"{backbone} at {side} px, forward and backward pass, median processor time of "
            f"{TIMING_REPEATS}, {bench.seeds} rounds",
            "share of the pass: " + format_sides(shares),
            Difference.of(MAX_COST_SHARE - np.max(list(shares.values()), axis=0)),
            smallest=0.02,
            cause="so small a network's pass is short",
        )

    return Claim("8c", text, (timed,), judge)


def _time_regulariser(seed: int, backbone: str, side: int) -> Figures:
    torch.manual_seed(seed)
    shares: Figures = {}
    for batch, dimensions in COST_SIZES:
        network = Descriptor(DescriptorSettings(backbone=backbone, dimensions=dimensions)).train()
        images = torch.randn(batch, 3, side, side)
        rows = torch.randn(batch, dimensions, requires_grad=True)

        def penalize(rows: torch.Tensor = rows) -> None:
            mean_singular_value(functional.normalize(rows)).backward()

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
    unseen = bench.sets.unseen
    found, _ = embed_shown(trained.descriptor, PreprocessedImages(unseen.images, bench.side))
    s, lower, upper = map(float, describe_spread(torch.from_numpy(found)).values())
    return {"recall": recall_at(found, unseen.labels, (1,))[1], "spread": (s - lower) / (upper - lower)}
