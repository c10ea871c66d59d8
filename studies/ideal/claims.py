"""Claim 9: domains with split heads against the same views as augmentation, against the plain loss, and against a shared head."""

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from image_copies.data.arrays import Float32s, Int64s
from image_copies.data.labels import LabelledImages
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.models.inference.protocols import embed_shown
from image_copies.models.network.descriptor import Descriptor

from ..claims.claim import Arm, Claim, Comparison, Figures, Measured, Side
from ..claims.row import format_sides
from ..claims.training import DIMENSIONS, Bench
from ..multigrain.metrics import recall_at
from .domains import DOMAINS

PER_CLASS = 4  # images in a batch
VIEWS = len(DOMAINS)  # of an image in a step with domains, and the factor of what is as large as these
# what it is called, its arm, and its figure: "domain", R@1 as the mean over the domains, …
Named = tuple[str, str, str]


class Printed(NamedTuple):
    """A claim of tables 1 to 3, which compares two arms.

    Attributes:
        number: Its number in the table of claims.
        claim: What is claimed.
        paper: The paper's figures, and where they stand.
        better: What should be better: its name, its arm, and the figure of it.
        worse: What it is compared with.
        note: What is particular about the runs.
        loss: The objective of both.
    """

    number: str
    claim: str
    paper: str
    better: Named
    worse: Named
    note: str = ""
    loss: str = "multi_similarity"


ON_SHAPES = ("9b", "9d")
WHOLE = ("IDEAL", "split", "joined")
EQUAL = f"; as many views a step: batches of the other side are {VIEWS} × as large, of as many classes"
PRINTED = (
    Printed(
        "9a",
        "IDEAL beats rotation as augmentation, mean over the domains",
        "78.5, 76.5, 77.8, 76.1 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)",
        ("domains", "split", "domain"),
        ("augmentation", "augmentation, all views", "domain"),
        f", mean over domains{EQUAL}",
    ),
    Printed(
        "9b",
        "the ensemble of rotations adds to IDEAL",
        "84.0 → 87.1 R@1 (Cars, table 1)",
        ("four domains joined", "split", "joined"),
        ("upright only", "split", "upright"),
    ),
    Printed(
        "9d",
        "split heads beat a shared one",
        "2 % higher (Cars, table 2)",
        ("split", "split", "joined"),
        ("shared", "shared", "joined"),
    ),
    Printed(
        "9h",
        "IDEAL with the contrastive loss beats that loss",
        "75.8 → 81.2 R@1 (Cars, table 3)",
        WHOLE,
        ("plain", "plain, all views", "upright"),
        f"; IDEAL's four domains joined{EQUAL}",
        "contrastive",
    ),
    Printed(
        "9i",
        "IDEAL with the triplet loss beats that loss",
        "75.5 → 80.2 R@1 (Cars, table 3)",
        WHOLE,
        ("plain", "plain, all views", "upright"),
        f"; IDEAL's four domains joined{EQUAL}",
        "triplet",
    ),
    Printed(
        "9k, premise",
        "the plain loss is worse on turned images than on upright ones",
        "83.1 on upright, 45.4, 54.5, 45.0 R@1 on turned images (Cars, table 1)",
        ("upright", "plain, all views", "upright"),
        ("turned", "plain, all views", "turned"),
    ),
)


def list_claims(bench: Bench) -> list[Claim]:
    """Tables 1 to 3: domains, rotation as augmentation, the plain loss, a shared head, other losses; on shapes ON_SHAPES."""
    return [
        _compare(bench, printed)
        for printed in PRINTED
        if bench.photographs is not None or printed.number in ON_SHAPES
    ]


def _compare(bench: Bench, printed: Printed) -> Claim:
    """The claim about two arms."""
    better, worse = (
        Side(label, _train(bench, arm, printed.loss), figure)
        for label, arm, figure in (printed.better, printed.worse)
    )

    def show_domains(measured: Measured) -> str:
        """R@1 of each domain, of both sides."""
        return "; ".join(
            f"{side.label} "
            + format_sides({domain: measured[side.arm.name][domain] for domain in ROTATIONS})
            for side in {side.arm.name: side for side in (better, worse)}.values()
        )

    dimensions = _count_dimensions(bench)
    ran = f"{bench.about}, {printed.loss}, {PER_CLASS} of a class, {dimensions} dimensions ({dimensions // VIEWS} a head)"
    return Comparison(
        printed.number + bench.suffix,
        printed.claim,
        printed.paper,
        f"{ran}; R@1 on unseen classes{printed.note}",
        better,
        worse,
        smallest=0.02,
        chance=(1 / bench.classes[1], "R@1"),
        note=show_domains
        if "domain" in (better.figure, worse.figure) or worse.figure == "turned"
        else None,
    ).as_claim()


def _train(bench: Bench, name: str, kind: str) -> Arm:
    """Train with "split" or "shared" domains, with the domains as "augmentation", or on upright images ("plain").

    The latter two, "all views", have as many views in a step as the former.
    """
    larger = VIEWS if name.endswith("all views") else 1
    settings = _start(bench)
    if name in ("split", "shared"):
        settings["descriptor"]["domains"] = name
    if name.startswith("augmentation"):
        settings["turn"] = True
    return bench.arm(
        " ".join(["ideal", *([kind] if kind != "multi_similarity" else []), name]),
        lambda bench, trained: _measure(bench, trained.descriptor),
        _measure,
        batch=larger * bench.batch,
        objective={"kind": kind},
        sampling={"kind": "pk", "per_class": larger * PER_CLASS},
        **settings,
    )


def _start(bench: Bench) -> dict[str, Any]:
    """Return network and rates: from given weights, the paper's dimensions, and lower rates of what has learnt already."""
    if not bench.descriptor.get("weights"):
        optimizer = {"kind": "adam", "learning_rate": 2e-3 * bench.rate_factor, "weight_decay": 5e-4}
        return {"descriptor": {"pooling_exponent": 1.0}, "optimizer": optimizer}
    descriptor = {"pooling_exponent": 1.0, "dimensions": 512, "frozen_statistics": True}
    rates = {"learning_rate": 1e-3, "backbone_learning_rate": 1e-4}
    return {
        "descriptor": descriptor,
        "optimizer": rates | {"kind": "adam", "weight_decay": 5e-4, "clip_norm": None},
    }


def _count_dimensions(bench: Bench) -> int:
    return int(_start(bench)["descriptor"].get("dimensions", DIMENSIONS))


def _measure(bench: Bench, descriptor: Descriptor) -> Figures:
    return measure_domains(descriptor, bench.sets.unseen, bench.side)


ROTATIONS = tuple(f"{angle}°" for angle in DOMAINS)


def measure_domains(network: Descriptor, labelled: LabelledImages, side: int) -> Figures:
    """Return R@1 of images of `side` pixels in each domain, as `recalls_of` does; heads of domains see their own one."""
    shown = PreprocessedImages(labelled.images, side)
    if network.settings.domains is not None:
        return recalls_of(embed_shown(network, shown, raw=True)[0], labelled.labels)
    parts = []
    for turns in range(len(DOMAINS)):
        turned = copy(network)
        turned.settings = network.settings.model_copy(update={"quarter_turns": turns})
        parts.append(embed_shown(turned, shown)[0])
    return recalls_of(np.stack(parts), labelled.labels)


def recalls_of(parts: Float32s, labels: Int64s) -> Figures:
    """Return R@1 of the domains' vectors [4, n, d]: of each, their mean, that of all but the first, and of all joined."""
    parts = parts / np.linalg.norm(parts, axis=2, keepdims=True)
    each = [recall_at(part, labels, (1,))[1] for part in parts]
    together = recall_at(np.concatenate(list(parts), axis=1), labels, (1,))[1]
    means = {"domain": float(np.mean(each)), "turned": float(np.mean(each[1:])), "upright": each[0]}
    return dict(zip(ROTATIONS, each, strict=True)) | means | {"joined": together}
