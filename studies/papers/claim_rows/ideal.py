"""Claim 9: domains with split heads against the same views as augmentation, against the plain loss, and against a shared head."""

import shutil
from typing import Any, NamedTuple

import numpy as np
from claim_rows.claim import Arm, Claim, Comparison, Measured, Side
from claim_rows.domains import ROTATIONS, measure_domains, recalls_of
from claim_rows.row import format_sides
from claim_rows.training import DIMENSIONS, Bench, train, vectors_of
from measurements import Figures

from image_copies.augmentations.dataset import DOMAINS
from image_copies.models.network.descriptor import Descriptor

PER_CLASS = 4  # images in a batch
VIEWS = len(DOMAINS)  # of an image in a step with domains, and the factor of what is as long or as large as these
LOSSES = {"contrastive": "75.8 → 81.2", "triplet": "75.5 → 80.2"}
Named = tuple[str, str, str]  # what it is called, its arm, and its figure: "domain", R@1 as the mean over the domains, …


class Printed(NamedTuple):
    """A claim of tables 1 and 2, which compares two arms.

    Attributes:
        number: Its number in the table of claims.
        claim: What is claimed.
        paper: The paper's figures, and where they stand.
        better: What should be better: its name, its arm, and the figure of it.
        worse: What it is compared with.
        note: What is particular about the runs.
        cause: Why it does not hold here, where it does not.
    """

    number: str
    claim: str
    paper: str
    better: Named
    worse: Named
    note: str = ""
    cause: str = ""


ON_PHOTOGRAPHS = ("9a", "9b", "9c", "9d", "9e", "9f", "9g", "9j", "9k, premise")
WHOLE = ("IDEAL", "split", "joined")
EQUAL = f"; as many views a step: batches of the other side are {VIEWS} × as large, of as many classes"
EACH = "; each step shows IDEAL four rotations of every image"
AUGMENTED = "78.5, 76.5, 77.8, 76.1 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)"
MULTI = "83.1, 45.4, 54.5, 45.0 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)"
PRINTED = (
    Printed(
        "9a",
        "IDEAL beats rotation as augmentation, mean over the domains",
        AUGMENTED,
        ("domains", "split", "domain"),
        ("augmentation", "augmentation, all views", "domain"),
        f", mean over domains{EQUAL}",
    ),
    Printed(
        "9a, views",
        "IDEAL beats rotation as augmentation, mean over the domains",
        AUGMENTED,
        ("domains", "split", "domain"),
        ("augmentation", "augmentation", "domain"),
        f", mean over domains{EACH}",
    ),
    Printed(
        "9b",
        "the ensemble of rotations adds to IDEAL",
        "84.0 → 87.1 R@1 (Cars, table 1)",
        ("four domains joined", "split", "joined"),
        ("upright only", "split", "upright"),
    ),
    Printed(
        "9c",
        "IDEAL's ensemble beats that of rotation as augmentation",
        "84.3 → 87.1 R@1 (Cars, table 1)",
        ("domains", "split", "joined"),
        ("augmentation", "augmentation, all views", "joined"),
        EQUAL,
    ),
    Printed(
        "9c, views",
        "IDEAL's ensemble beats that of rotation as augmentation",
        "84.3 → 87.1 R@1 (Cars, table 1)",
        ("domains", "split", "joined"),
        ("augmentation", "augmentation", "joined"),
    ),
    Printed(
        "9d",
        "split heads beat a shared one",
        "2 % higher (Cars, table 2)",
        ("split", "split", "joined"),
        ("shared", "shared", "joined"),
    ),
    Printed(
        "9d, cause",
        "split heads beat a shared one if each head learns from as many images",
        "2 % higher (Cars, table 2)",
        (f"split, {VIEWS} × the steps", "longer", "joined"),
        ("shared", "shared", "joined"),
        f"; {VIEWS} × the steps for the split heads, so also for their backbone",
        "a shared head is better here, however long split ones learn",
    ),
    Printed(
        "9e",
        "IDEAL's ensemble beats that of the plain loss",
        "80.5 → 87.1 R@1 (Cars, table 1)",
        WHOLE,
        ("plain", "plain, all views", "joined"),
        EQUAL,
    ),
    Printed(
        "9e, views",
        "IDEAL's ensemble beats that of the plain loss",
        "80.5 → 87.1 R@1 (Cars, table 1)",
        WHOLE,
        ("plain", "plain", "joined"),
        EACH,
    ),
    Printed(
        "9f",
        "IDEAL beats the plain loss on upright images",
        "83.1 → 84.0 R@1 (Cars, table 1)",
        ("IDEAL", "split", "upright"),
        ("plain", "plain, all views", "upright"),
        EQUAL,
        "a head of a quarter of the dimensions against all of them",
    ),
    Printed(
        "9f, views",
        "IDEAL beats the plain loss on upright images",
        "83.1 → 84.0 R@1 (Cars, table 1)",
        ("IDEAL", "split", "upright"),
        ("plain", "plain", "upright"),
        EACH,
        "a head of a quarter of the dimensions against all of them",
    ),
    Printed(
        "9g",
        "one model for each domain, joined, beats IDEAL's one",
        "87.1 → 89.9 R@1 (Cars, table 1)",
        ("four models", "models", "joined"),
        WHOLE,
        "; each of the four models has as many steps, and all dimensions",
        "IDEAL's backbone sees four times as many images as each of the models",
    ),
    Printed(
        "9j",
        "IDEAL beats the plain loss in the four domains, on average",
        MULTI,
        ("IDEAL", "split", "domain"),
        ("plain", "plain, all views", "domain"),
        f", mean over domains{EQUAL}",
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
    """Tables 1 to 3: domains, rotation as augmentation, the plain loss, a model for each domain, a shared head, other losses.

    On photographs: the claims of ON_PHOTOGRAPHS.
    """
    names = ("augmentation", "augmentation, all views", "split", "shared", "plain", "plain, all views")
    arms = {name: _train(bench, name) for name in names}
    arms["models"] = _train_model_of_each_domain(bench, arms["plain"].start)
    losses = [_compare_loss(bench, kind, paper) for kind, paper in LOSSES.items()]
    if bench.photographs is not None:
        return [*(_compare(bench, printed, arms) for printed in PRINTED if printed.number in ON_PHOTOGRAPHS), *losses]
    arms["longer"] = _train(bench, "split", factor=VIEWS)
    return [*(_compare(bench, printed, arms) for printed in PRINTED), *losses]


def _compare(bench: Bench, printed: Printed, arms: dict[str, Arm]) -> Claim:
    """The claim about two arms."""
    better, worse = (Side(label, arms[arm], figure) for label, arm, figure in (printed.better, printed.worse))

    def show_domains(measured: Measured) -> str:
        """R@1 of each domain, of both sides."""
        return "; ".join(
            f"{side.label} " + format_sides({domain: measured[side.arm.name][domain] for domain in ROTATIONS})
            for side in {side.arm.name: side for side in (better, worse)}.values()
        )

    dimensions = _count_dimensions(bench)
    ran = f"{bench.about}, multi-similarity, {PER_CLASS} of a class, {dimensions} dimensions ({dimensions // VIEWS} a head)"
    return Comparison(
        printed.number + bench.suffix,
        printed.claim,
        printed.paper,
        f"{ran}; R@1 on unseen classes{printed.note}",
        better,
        worse,
        smallest=0.02,
        chance=_chance(bench),
        note=show_domains if "domain" in (better.figure, worse.figure) or worse.figure == "turned" else None,
        cause=printed.cause,
    ).as_claim()


def _compare_loss(bench: Bench, kind: str, paper: str) -> Claim:
    """Table 3: another loss within the domains, against the same loss on upright images."""
    return Comparison(
        ("9h" if kind == "contrastive" else "9i") + bench.suffix,
        f"IDEAL with the {kind} loss beats that loss",
        f"{paper} R@1 (Cars, table 3)",
        f"{bench.about}, {kind}, {PER_CLASS} of a class, {_count_dimensions(bench)} dimensions; R@1 on unseen classes; "
        f"IDEAL's four domains joined{EQUAL}",
        Side("IDEAL", _train(bench, "split", kind), "joined"),
        Side("plain", _train(bench, "plain, all views", kind), "upright"),
        smallest=0.02,
        chance=_chance(bench),
    ).as_claim()


def _train(bench: Bench, name: str, kind: str = "multi_similarity", factor: int = 1) -> Arm:
    """Train with "split" or "shared" domains, with the domains as "augmentation", or on upright images ("plain").

    The latter two, "all views", have as many views in a step as the former.
    """
    domains, larger = name in ("split", "shared"), VIEWS if name.endswith("all views") else 1
    changed: dict[str, Any] = {"turn": True} if name.startswith("augmentation") else {}
    settings = _settings(bench, kind)
    settings["sampling"] = {"kind": "pk", "per_class": larger * PER_CLASS}
    return bench.arm(
        " ".join(["ideal", *([kind] if kind != "multi_similarity" else []), name])
        + ("" if factor == 1 else f" {factor} × the steps"),
        lambda bench, trained: _measure(bench, trained.descriptor),
        _measure,
        factor=factor,
        views=VIEWS if domains else 1,
        batch=larger * bench.batch,
        **settings | {"descriptor": settings["descriptor"] | ({"domains": name} if domains else {})},
        **changed,
    )


def _settings(bench: Bench, kind: str) -> dict[str, Any]:
    """Return what all arms share."""
    return {"objective": {"kind": kind}, "sampling": {"kind": "pk", "per_class": PER_CLASS}} | _start(bench)


def _start(bench: Bench) -> dict[str, Any]:
    """Return network and rates: from given weights, the paper's dimensions, and lower rates of what has learnt already."""
    if not bench.descriptor.get("weights"):
        optimizer = {"kind": "adam", "learning_rate": 2e-3 * bench.rate_factor, "weight_decay": 5e-4}
        return {"descriptor": {"pooling_exponent": 1.0}, "optimizer": optimizer}
    descriptor = {"pooling_exponent": 1.0, "dimensions": 512, "frozen_statistics": True}
    rates = {"learning_rate": 1e-3, "backbone_learning_rate": 1e-4}
    return {"descriptor": descriptor, "optimizer": rates | {"kind": "adam", "weight_decay": 5e-4, "clip_norm": None}}


def _count_dimensions(bench: Bench) -> int:
    return int(_start(bench)["descriptor"].get("dimensions", DIMENSIONS))


def _train_model_of_each_domain(bench: Bench, start: Arm | None) -> Arm:
    """Train a model on the images of each domain alone; each embeds the test images of its domain. All have the same start."""
    settings = _settings(bench, "multi_similarity")

    def measure(seed: int) -> Figures:
        parts = []
        for turn in range(len(DOMAINS)):
            turned = settings | {"descriptor": settings["descriptor"] | {"quarter_turns": turn}}
            trained = train(bench, bench.sets, f"ideal-of-domain-{turn}", seed, bench.steps, bench.batch, **turned)
            parts.append(vectors_of(trained.descriptor, bench.sets.unseen.images, bench.side))
            shutil.rmtree(trained.folder)
        return recalls_of(np.stack(parts), bench.sets.unseen.labels)

    about = bench.describe(bench.steps, bench.batch, settings)
    images = len(DOMAINS) * bench.steps * bench.batch
    return Arm("ideal one model for each domain" + bench.suffix, about, measure, images, bench.image_network, start)


def _chance(bench: Bench) -> tuple[float, str]:
    return 1 / bench.classes[1], "R@1"


def _measure(bench: Bench, descriptor: Descriptor) -> Figures:
    return measure_domains(descriptor, bench.sets.unseen, bench.side)
