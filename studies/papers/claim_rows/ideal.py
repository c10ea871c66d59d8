"""Claim 9: rotations as domains with split heads against rotations as augmentation, and against a shared head."""

import shutil
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from claim_rows.claim import Arm, Claim, Comparison, Measured, Side
from claim_rows.row import format_sides
from claim_rows.training import DIMENSIONS, Bench, Sets, Trained, train, vectors_of
from measurements import Figures
from numpy.typing import NDArray
from PIL import Image

from image_copies.augmentations.domains import DOMAINS
from image_copies.data.decode import decode_rgb
from image_copies.data.images import ImageSet
from image_copies.submissions.scoring.retrieval import recall_at

POOLED: dict[str, Any] = {"pooling_exponent": 1.0}
STEPS_FACTOR = 4  # times as many steps: as many images for each of four split heads as for a shared one
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


ON_PHOTOGRAPHS = ("9a", "9b", "9c", "9d", "9e", "9f", "9j")
WHOLE = ("IDEAL", "split", "joined")
EACH = "; each step shows IDEAL four rotations of every image"
HEADS = "each split head learns from a quarter of the images, a shared one from all, in a short training from scratch"
PRINTED = (
    Printed(
        "9a",
        "IDEAL beats rotation as augmentation, mean over the domains",
        "78.5, 76.5, 77.8, 76.1 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)",
        ("domains", "split", "domain"),
        ("augmentation", "augmentation", "domain"),
        f", mean over domains{EACH}",
        HEADS,
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
        ("augmentation", "augmentation", "joined"),
        cause=HEADS,
    ),
    Printed(
        "9d",
        "split heads beat a shared one",
        "2 % higher (Cars, table 2)",
        ("split", "split", "joined"),
        ("shared", "shared", "joined"),
        cause=HEADS,
    ),
    Printed(
        "9d, cause",
        "split heads beat a shared one if each head learns from as many images",
        "2 % higher (Cars, table 2)",
        (f"split, {STEPS_FACTOR} × the steps", "longer", "joined"),
        ("shared", "shared", "joined"),
        f"; {STEPS_FACTOR} × the steps for the split heads, so also for their backbone",
        "a shared head is better here, however long split ones learn",
    ),
    Printed(
        "9e",
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
        f"; each of the four models has as many steps and {DIMENSIONS} dimensions",
        "IDEAL's backbone sees four times as many images as each of the models",
    ),
    Printed(
        "9j",
        "IDEAL beats the plain loss in the four domains, on average",
        "83.1, 45.4, 54.5, 45.0 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)",
        ("IDEAL", "split", "domain"),
        ("plain", "plain", "domain"),
        f", mean over domains{EACH}",
    ),
)


def list_claims(bench: Bench) -> list[Claim]:
    """Tables 1 to 3: domains, rotation as augmentation, the plain loss, a model for each domain, a shared head, other losses.

    On photographs: the claims of ON_PHOTOGRAPHS.
    """
    arms = {name: _train(bench, name) for name in ("augmentation", "split", "shared", "plain")}
    if bench.photographs is not None:
        return [_compare(bench, printed, arms) for printed in PRINTED if printed.number in ON_PHOTOGRAPHS]
    arms |= {"longer": _train(bench, "split", factor=STEPS_FACTOR), "models": _train_model_of_each_domain(bench)}
    return [
        *(_compare(bench, printed, arms) for printed in PRINTED),
        *(_compare_loss(bench, kind, paper) for kind, paper in LOSSES.items()),
    ]


def _compare(bench: Bench, printed: Printed, arms: dict[str, Arm]) -> Claim:
    """The claim about two arms."""
    better, worse = (Side(label, arms[arm], figure) for label, arm, figure in (printed.better, printed.worse))

    def show_domains(measured: Measured) -> str:
        """R@1 of each domain, of both sides."""
        return "; ".join(
            f"{side.label} " + format_sides({f"{angle}°": measured[side.arm.name][f"{angle}°"] for angle in (0, 90, 180, 270)})
            for side in (better, worse)
        )

    ran = f"{bench.about}, multi-similarity, 4 of a class, {DIMENSIONS} dimensions ({DIMENSIONS // 4} a head)"
    return Comparison(
        printed.number + bench.suffix,
        printed.claim,
        printed.paper,
        f"{ran}; R@1 on unseen classes{printed.note}",
        better,
        worse,
        smallest=0.02,
        chance=_chance(bench),
        note=show_domains if better.figure == "domain" else None,
        cause=printed.cause,
    ).as_claim()


def _compare_loss(bench: Bench, kind: str, paper: str) -> Claim:
    """Table 3: another loss within the domains, against the same loss on upright images."""
    return Comparison(
        "9h" if kind == "contrastive" else "9i",
        f"IDEAL with the {kind} loss beats that loss",
        f"{paper} R@1 (Cars, table 3)",
        f"{bench.about}, {kind}, 4 of a class, {DIMENSIONS} dimensions; R@1 on unseen classes; IDEAL's four domains joined",
        Side("IDEAL", _train(bench, "split", kind), "joined"),
        Side("plain", _train(bench, "plain", kind), "upright"),
        smallest=0.02,
        chance=_chance(bench),
    ).as_claim()


def _train(bench: Bench, name: str, kind: str = "multi_similarity", factor: int = 1) -> Arm:
    """Train with "split" or "shared" domains, with rotation as "augmentation", or on upright images ("plain")."""
    domains = name in ("split", "shared")
    changed: dict[str, Any] = {"turn": True} if name == "augmentation" else {}
    prefix = "ideal" if kind == "multi_similarity" else f"ideal {kind}"
    return bench.arm(
        f"{prefix} {name}" + ("" if factor == 1 else f" {factor} × the steps"),
        _measure,
        factor=factor,
        views=len(DOMAINS) if domains else 1,
        descriptor=POOLED | ({"domains": name} if domains else {}),
        **_settings(bench, kind),
        **changed,
    )


def _settings(bench: Bench, kind: str) -> dict[str, Any]:
    """Return what all arms share."""
    return {
        "objective": {"kind": kind},
        "sampling": {"kind": "pk", "per_class": 4},
        "optimizer": {"kind": "adam", "learning_rate": 2e-3 * bench.rate_factor, "weight_decay": 5e-4},
    }


def _train_model_of_each_domain(bench: Bench) -> Arm:
    """Train a model on the images of each domain alone; each embeds the test images of its domain."""
    settings = _settings(bench, "multi_similarity") | {"descriptor": POOLED}

    def measure(seed: int) -> Figures:
        parts = []
        for turn in range(len(DOMAINS)):
            trained = train(bench, _turn(bench, turn), f"ideal-of-domain-{turn}", seed, bench.steps, bench.batch, **settings)
            parts.append(vectors_of(trained.descriptor, bench.sets.unseen.images, bench.side, turns=turn))
            shutil.rmtree(trained.folder)
        return _recalls(bench, np.stack(parts))

    about = bench.describe(bench.steps, bench.batch, settings)
    images = len(DOMAINS) * bench.steps * bench.batch
    return Arm("ideal one model for each domain" + bench.suffix, about, measure, images, bench.image_network)


def _turn(bench: Bench, turn: int) -> Sets:
    """Write the training images rotated by so many quarter turns."""
    train_images, folder = bench.sets.train.images, bench.folder / f"turned-{turn}"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{image_id}.png" for image_id in train_images.ids]
    for source, target in zip(train_images.paths, paths, strict=True):
        if not target.exists():
            Image.fromarray(np.ascontiguousarray(np.rot90(decode_rgb(source), turn))).save(target)
    return replace(bench.sets, train=replace(bench.sets.train, images=ImageSet(train_images.ids, paths)))


def _chance(bench: Bench) -> tuple[float, str]:
    return 1 / bench.classes[1], "R@1 of the better side"


def _measure(bench: Bench, trained: Trained) -> Figures:
    images = bench.sets.unseen.images
    if trained.descriptor.settings.domains is None:
        parts = np.stack([vectors_of(trained.descriptor, images, bench.side, turns=turn) for turn in range(len(DOMAINS))])
    else:
        parts = vectors_of(trained.descriptor, images, bench.side, raw=True)
    return _recalls(bench, parts)


def _recalls(bench: Bench, parts: NDArray[np.float32]) -> Figures:
    """Return R@1 of the domains' vectors [4, n, d]: their mean, that of all joined, and that of upright images."""
    labels = bench.sets.unseen.labels
    parts = parts / np.linalg.norm(parts, axis=2, keepdims=True)
    each = [recall_at(part, labels, (1,))[1] for part in parts]
    together = recall_at(np.concatenate(list(parts), axis=1), labels, (1,))[1]
    by_domain = {f"{90 * turn}°": recall for turn, recall in enumerate(each)}
    return by_domain | {"domain": float(np.mean(each)), "joined": together, "upright": each[0]}
