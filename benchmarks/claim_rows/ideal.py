"""Claim 9: rotations as domains with split heads against rotations as augmentation, and against a shared head."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from claim_rows.row import Row, format_sides, subtract_runs
from claim_rows.store import Figures
from claim_rows.training import BACKBONE, BATCH_SIZE, VERSION, Bench, Shapes, Trained, train, vectors_of
from numpy.typing import NDArray
from PIL import Image

from augmentations.domains import DOMAINS, rotate_to_domain
from data.decode import decode_rgb
from data.images import ImageSet
from submissions.scoring.retrieval import recall_at

DIMENSIONS = 64
DESCRIPTOR: dict[str, Any] = {"backbone": BACKBONE, "dimensions": DIMENSIONS}
STEPS_FACTOR = 4  # times as many steps: as many images for each of four split heads as for a shared one
LOSSES = {"contrastive": "75.8 → 81.2", "triplet": "75.5 → 80.2"}
Side = tuple[str, str, str]  # what it is called, its arm, and its figure
Arm = dict[str, list[float]]  # run by run: "domain", R@1 as the mean over the domains; "joined", of all; "upright"


class Claim(NamedTuple):
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
    better: Side
    worse: Side
    note: str = ""
    cause: str = ""


WHOLE = ("IDEAL", "split", "joined")
EACH = "; each step shows IDEAL four rotations of every image"
HEADS = "each split head learns from a quarter of the images, a shared one from all, in a short training from scratch"
CLAIMS = (
    Claim(
        "9a",
        "IDEAL beats rotation as augmentation, mean over the domains",
        "78.5, 76.5, 77.8, 76.1 → 84.0, 80.2, 82.8, 80.5 R@1 (Cars, table 1)",
        ("domains", "split", "domain"),
        ("augmentation", "augmentation", "domain"),
        f", mean over domains{EACH}",
        HEADS,
    ),
    Claim(
        "9b",
        "the ensemble of rotations adds to IDEAL",
        "84.0 → 87.1 R@1 (Cars, table 1)",
        ("four domains joined", "split", "joined"),
        ("upright only", "split", "upright"),
    ),
    Claim(
        "9c",
        "IDEAL's ensemble beats that of rotation as augmentation",
        "84.3 → 87.1 R@1 (Cars, table 1)",
        ("domains", "split", "joined"),
        ("augmentation", "augmentation", "joined"),
        cause=HEADS,
    ),
    Claim(
        "9d",
        "split heads beat a shared one",
        "2 % higher (Cars, table 2)",
        ("split", "split", "joined"),
        ("shared", "shared", "joined"),
        cause=HEADS,
    ),
    Claim(
        "9d, cause",
        "split heads beat a shared one if each head learns from as many images",
        "2 % higher (Cars, table 2)",
        (f"split, {STEPS_FACTOR} × the steps", "longer", "joined"),
        ("shared", "shared", "joined"),
        f"; {STEPS_FACTOR} × the steps for the split heads, so also for their backbone",
        "a shared head is better here, however long split ones learn",
    ),
    Claim(
        "9e",
        "IDEAL's ensemble beats that of the plain loss",
        "80.5 → 87.1 R@1 (Cars, table 1)",
        WHOLE,
        ("plain", "plain", "joined"),
        EACH,
    ),
    Claim(
        "9f",
        "IDEAL beats the plain loss on upright images",
        "83.1 → 84.0 R@1 (Cars, table 1)",
        ("IDEAL", "split", "upright"),
        ("plain", "plain", "upright"),
        EACH,
        "a head of a quarter of the dimensions against all of them",
    ),
    Claim(
        "9g",
        "one model for each domain, joined, beats IDEAL's one",
        "87.1 → 89.9 R@1 (Cars, table 1)",
        ("four models", "models", "joined"),
        WHOLE,
        f"; each of the four models has as many steps and {DIMENSIONS} dimensions",
        "IDEAL's backbone sees four times as many images as each of the models",
    ),
)


def rows(bench: Bench) -> list[Row]:
    """Tables 1 to 3: domains, rotation as augmentation, the plain loss, a model for each domain, a shared head, other losses."""
    arms = {name: _arm(bench, name) for name in ("augmentation", "split", "shared", "plain")}
    arms["longer"] = _arm(replace(bench, steps=STEPS_FACTOR * bench.steps), "split")
    arms["models"] = _models_of_domains(bench)
    learnt = _learnt(bench, arms["split"])
    return [
        *(_compare(bench, claim, arms, learnt) for claim in CLAIMS),
        *(_of_loss(bench, kind, paper) for kind, paper in LOSSES.items()),
    ]


def _compare(bench: Bench, claim: Claim, arms: dict[str, Arm], learnt: tuple[float, float, str]) -> Row:
    """The row of a claim about two arms."""
    sides = {name: arms[arm][figure] for name, arm, figure in (claim.better, claim.worse)}
    first, second = sides.values()
    ran = f"{bench.about}, multi-similarity, 4 of a class, {DIMENSIONS} dimensions ({DIMENSIONS // 4} a head)"
    return Row(
        claim.number,
        claim.claim,
        claim.paper,
        f"{ran}; R@1 on unseen classes{claim.note}",
        format_sides(sides),
        subtract_runs(first, second),
        smallest=0.02,
        learnt=learnt,
        cause=claim.cause,
    )


def _of_loss(bench: Bench, kind: str, paper: str) -> Row:
    """Table 3: another loss within the domains, against the same loss on upright images."""
    split, plain = (_arm(bench, name, kind) for name in ("split", "plain"))
    return Row(
        "9h" if kind == "contrastive" else "9i",
        f"IDEAL with the {kind} loss beats that loss",
        f"{paper} R@1 (Cars, table 3)",
        f"{bench.about}, {kind}, 4 of a class, {DIMENSIONS} dimensions; R@1 on unseen classes; IDEAL's four domains joined",
        format_sides({"IDEAL": split["joined"], "plain": plain["upright"]}),
        subtract_runs(split["joined"], plain["upright"]),
        smallest=0.02,
        learnt=_learnt(bench, split),
    )


def _arm(bench: Bench, name: str, kind: str = "multi_similarity") -> Arm:
    """Train with "split" or "shared" domains, with rotation as "augmentation", or on upright images ("plain")."""
    descriptor = DESCRIPTOR | ({"domains": name} if name in ("split", "shared") else {})
    changed: dict[str, Any] = {"turn": True} if name == "augmentation" else {}
    prefix = "ideal" if kind == "multi_similarity" else f"ideal {kind}"
    return bench.figures(
        f"{prefix} {name}", lambda trained: _measure(bench, trained), descriptor=descriptor, **_settings(kind), **changed
    )


def _settings(kind: str) -> dict[str, Any]:
    """Return what all arms share."""
    return {
        "objective": {"kind": kind},
        "sampling": {"kind": "pk", "per_class": 4},
        "optimizer": {"kind": "adam", "learning_rate": 2e-3, "weight_decay": 5e-4},
    }


def _models_of_domains(bench: Bench) -> Arm:
    """Train a model on the images of each domain alone; each embeds the test images of its domain."""

    def measure(seed: int) -> Figures:
        parts = []
        for turn in range(len(DOMAINS)):
            turned = replace(bench, shapes=_turned(bench, turn))
            trained = train(turned, f"ideal-of-domain-{turn}", seed, descriptor=DESCRIPTOR, **_settings("multi_similarity"))
            parts.append(vectors_of(trained.descriptor, bench.shapes.unseen.images, turns=turn))
        return _recalls(bench, np.stack(parts))

    settings = {"descriptor": DESCRIPTOR, **_settings("multi_similarity")}
    about = {"steps": bench.steps, "batch": BATCH_SIZE, "bench": VERSION, "settings": settings}
    runs = bench.store.measure("ideal one model for each domain", about, bench.seeds, measure)
    return {figure: [run[figure] for run in runs] for figure in runs[0]}


def _turned(bench: Bench, turn: int) -> Shapes:
    """Write the training images rotated by so many quarter turns."""
    train_images, folder = bench.shapes.train.images, bench.folder / f"turned-{turn}"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{image_id}.png" for image_id in train_images.ids]
    for source, target in zip(train_images.paths, paths, strict=True):
        if not target.exists():
            Image.fromarray(rotate_to_domain(decode_rgb(source), turn)).save(target)
    return replace(bench.shapes, train=replace(bench.shapes.train, images=ImageSet(train_images.ids, paths)))


def _learnt(bench: Bench, split: Arm) -> tuple[float, float, str]:
    return float(np.mean(split["joined"])), 1 / len(bench.shapes.unseen.names), "R@1 of IDEAL"


def _measure(bench: Bench, trained: Trained) -> Figures:
    images = bench.shapes.unseen.images
    if trained.descriptor.settings.domains is None:
        parts = np.stack([vectors_of(trained.descriptor, images, turns=turn) for turn in range(4)])
    else:
        parts = vectors_of(trained.descriptor, images, raw=True)
    return _recalls(bench, parts)


def _recalls(bench: Bench, parts: NDArray[np.float32]) -> Figures:
    """Return R@1 of the domains' vectors [4, n, d]: their mean, that of all joined, and that of upright images."""
    labels = bench.shapes.unseen.labels
    parts = parts / np.linalg.norm(parts, axis=2, keepdims=True)
    each = [recall_at(part, labels, (1,))[1] for part in parts]
    together = recall_at(np.concatenate(list(parts), axis=1), labels, (1,))[1]
    return {"domain": float(np.mean(each)), "joined": together, "upright": each[0]}
