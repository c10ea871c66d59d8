"""Claims 10 to 12: drip against direct training, the ensemble against its members, query normalisation."""

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from image_copies.data.arrays import Float32s
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import IscFolder, open_isc_folder
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.submissions.ensemble.normalization import find_neighbours, normalize_queries
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.settings import Method, NormalizationSettings
from image_copies.submissions.vectors.files import Vectors

from .claim import Arm, Claim, Comparison, Figures, Side

CLASSES = 2000
OVERLAYS = 300
IMAGE_SIDE = 48
BATCH_SIZE = 96
RATE = 2e-3
QUERIES, COPIES, REFERENCES, TRAINING = 1500, 300, 1500, 2000  # four distractors for each copy
DRIP_STAGES = ((0.1, 0.2), (0.35, 0.3), (1.0, 0.5))  # share of the classes, share of the steps
BACKBONES = {"drip": "test_efficientnet", "direct": "test_efficientnet", "nfnet": "test_nfnet"}
BETAS: dict[Method, float] = {"method1": 2.0, "method2": 1.8}  # the paper's
SMALL_BETA, NEIGHBOURS = 1.0, 100
STEP_COST = 3  # of an image in a training step, in forward passes
LABELS = {  # of figures in the table
    "none": "ensemble",
    "best_member": "the better one",
    "method1": "method 1",
    "method2": "method 2",
    "method1_small": f"method 1 at β {SMALL_BETA:g}",
    "method2_small": f"method 2 at β {SMALL_BETA:g}",
}
MEMBERS = {"drip": "efficientnet", "nfnet": "nfnet"}  # of an ensemble
CENTROID_IMAGES = 5  # whose mean is a class's row at the beginning of a stage
# of µAP: the smallest effect that matters, and more than untrained networks reach
SMALLEST, CHANCE = 0.01, 0.02
Sets = dict[str, Float32s]


@dataclass(frozen=True)
class Row:
    """What a row compares; the fields of `Comparison` that differ between the rows.

    Attributes:
        number: Number of the claim.
        claim: What the paper claims.
        paper: The paper's figures, and where they stand.
        note: Added to how it ran.
        better: Figure that is to be higher, of those that `_measure` returns.
        worse: Figure that it is compared with.
        cause: What may be the cause where the row does not hold.
        beside: Figures of the ensemble's members.
    """

    number: str
    claim: str
    paper: str
    note: str
    better: str
    worse: str
    cause: str
    beside: tuple[str, ...] = ()


THEIRS = "(the authors' repository: eight checkpoints, PCA fitted on the references)"
BEST_MEMBER = f"best member .664 (ISC2021 paper, table 1) → .6857 {THEIRS}"
FEW = "few training images near the queries"
ROWS = (
    Row(
        "10",
        "drip training beats all classes at once, at equal steps",
        "ISC2021 paper, section 2.5.1: no figure",
        "; the direct training has further steps for what drip's two rebuilds of the class matrix cost",
        "drip",
        "direct",
        f"{CLASSES} classes are few enough to start with",
    ),
    Row(
        "11",
        "the ensemble beats its best member",
        BEST_MEMBER,
        "; efficientnet and nfnet, PCA to 256",
        "none",
        "best_member",
        "one member is far weaker",
        ("drip", "nfnet"),
    ),
    Row(
        "12a",
        "method 1 beats none under many distractors",
        "ISC2021 paper, section 2.7.1: no figure",
        f"; β {BETAS['method1']:g}",
        "method1",
        "none",
        FEW,
        ("method1_small",),
    ),
    Row(
        "12b",
        "method 2 beats method 1 under many distractors",
        f"none .6857 → method 2 .7267 {THEIRS}; phase 2: .53 → .59 (ISC2021 paper, section 2.7.2)",
        f"; β {BETAS['method2']:g} and {BETAS['method1']:g}, {NEIGHBOURS} neighbours",
        "method2",
        "method1",
        FEW,
        ("method2_small", "method1_small"),
    ),
)


@dataclass(frozen=True)
class CopyBench:
    """What the trainings of these claims share.

    Attributes:
        folder: Where trainings are written.
        root: A folder in the ISC2021 layout.
        steps: Steps of each network, over all its stages.
        seeds: Number of runs, in words only.
    """

    folder: Path
    root: Path
    steps: int
    seeds: int

    @cached_property
    def data(self) -> IscFolder:
        """The data set."""
        return open_isc_folder(self.root)


def list_claims(bench: CopyBench) -> list[Claim]:
    """Both members, the direct training, the ensembles and the normalisations of each seed."""
    arm = _make_arm(bench)
    ran = (
        f"{bench.data.root.name}: {IMAGE_SIDE} px, {CLASSES} classes, {bench.steps} steps of {BATCH_SIZE} for each network, "
        f"{bench.seeds} seeds; µAP of {QUERIES} queries, {COPIES} of them copies"
    )
    skill = tuple(Side(figure, arm, figure) for figure in ("drip", "none"))
    return [
        Comparison(
            row.number,
            row.claim,
            row.paper,
            ran + row.note,
            Side(LABELS.get(row.better, row.better), arm, row.better),
            Side(LABELS.get(row.worse, row.worse), arm, row.worse),
            SMALLEST,
            (CHANCE, "best µAP"),
            skill,
            tuple(Side(MEMBERS.get(figure) or LABELS[figure], arm, figure) for figure in row.beside),
            cause=row.cause,
        ).as_claim()
        for row in ROWS
    ]


def _make_arm(bench: CopyBench) -> Arm:
    """Return the one arm: a seed's trainings give the figures of every row."""
    about = {
        "data": [bench.data.root.name, len(bench.data.training.ids)],
        "steps": bench.steps,
        "batch": BATCH_SIZE,
        "classes": CLASSES,
        "size": IMAGE_SIDE,
        "beta": [*BETAS.values(), SMALL_BETA],
        "direct": count_direct_steps(bench.steps, CLASSES),
        "members": len(BACKBONES),
    }
    return Arm("copies", about, lambda seed: _measure(bench, seed))


def _measure(bench: CopyBench, seed: int) -> Figures:
    chosen, truth = _choose_parts(bench.data)
    score: Figures = {}
    members: dict[str, Sets] = {}
    for name in BACKBONES:
        members[name] = _embed(_train(bench, name, seed), chosen)
        score[name] = _score(members[name]["query"], members[name]["reference"], chosen, truth)
    sets = _join(members["drip"], members["nfnet"])
    near = find_neighbours(sets["query"], sets["training"], NEIGHBOURS)
    settings = NormalizationSettings(direction_neighbours=NEIGHBOURS)
    for method, of_paper in BETAS.items():
        for figure, beta in ((method, of_paper), (f"{method}_small", SMALL_BETA)):
            queries = normalize_queries(sets["query"], sets["training"], near, method, beta, settings)
            score[figure] = _score(queries, sets["reference"], chosen, truth)
    score["none"] = _score(sets["query"], sets["reference"], chosen, truth)
    return score | {"best_member": max(score["drip"], score["nfnet"])}


def _join(first: Sets, second: Sets) -> Sets:
    """Concatenate two members' vectors and project them, fitted on the training images."""
    joined = {part: np.concatenate([first[part], second[part]], axis=1) for part in first}
    projection = fit_projection(joined["training"])
    return {
        part: projection.apply(vectors, min(256, joined["training"].shape[1]), 0.0)
        for part, vectors in joined.items()
    }


def _choose_parts(data: IscFolder) -> tuple[dict[str, ImageSet], GroundTruth]:
    """Fixed parts of queries and references: the first copies, distractors, and references with those that were copied."""
    if data.ground_truth is None:
        raise SystemExit(f"{data.root} has no ground truth to score against")
    truth = read_ground_truth(data.ground_truth)
    reference_of = dict(sorted(truth.pairs))
    known = set(data.query.ids)
    copies = [query for query in truth.query_ids if query in reference_of and query in known][:COPIES]
    others = [query for query in truth.query_ids if query not in reference_of and query in known][
        : QUERIES - len(copies)
    ]
    needed = {reference_of[query] for query in copies}
    references = sorted(needed | set(data.reference.ids[: REFERENCES - len(needed)]))
    pairs = frozenset(pair for pair in truth.pairs if pair[0] in set(copies))
    sets = {
        "query": data.query.select(sorted(copies + others)),
        "reference": data.reference.select(references),
        "training": data.training.select(data.training.ids[:TRAINING]),
    }
    return sets, GroundTruth(sorted(copies + others), pairs)


def _train(bench: CopyBench, name: str, seed: int) -> Path:
    """Train a member; those of another name begin with other weights and see other edits.

    All but "direct" are trained drip by drip; there all classes come at once, with further steps for what the stages cost.
    """
    drip = name != "direct"
    data = bench.data
    ids = data.training.ids
    classes = min(CLASSES, len(ids) - OVERLAYS)
    stages = [
        {
            "classes": int(share * classes),
            "iterations": max(1, round(part * bench.steps))
            if drip
            else count_direct_steps(bench.steps, classes),
            "intensity": 0.5,
            "image_size": IMAGE_SIDE,
            "batch_size": BATCH_SIZE,
            "epochs": 1,
        }
        for share, part in (DRIP_STAGES if drip else ((1.0, 1.0),))
    ]
    model = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": BACKBONES[name], "dimensions": 256},
            "stages": stages,
            "optimizer": {"learning_rate": RATE, "class_learning_rate": 5 * RATE},
            "scheduler": {"kind": "constant"},
            "workers": 0,
        }
    )
    learnt = data.training.select(ids[:classes])
    overlays = data.training.select(ids[-OVERLAYS:])
    return Trainer(
        model, learnt, overlays, bench.folder / f"{name}-{seed}", bench.folder / "cache", seed, name=name
    ).train()


def count_direct_steps(steps: int, classes: int) -> int:
    """Return drip's steps, and as many more as its rebuilds of the class matrix cost in forward passes."""
    rebuilt = sum(CENTROID_IMAGES * int(share * classes) for share, _ in DRIP_STAGES[1:])
    return steps + round(rebuilt / (STEP_COST * BATCH_SIZE))


def _embed(path: Path, chosen: dict[str, ImageSet]) -> Sets:
    """Return a network's vectors; its training is deleted."""
    descriptor = load_descriptor(path)
    settings = EmbeddingSettings()
    shutil.rmtree(path.parent)
    blocks = {
        part: [block.vectors for block in embed_images(descriptor, images, settings)]
        for part, images in chosen.items()
    }
    return {part: np.concatenate(vectors) for part, vectors in blocks.items()}


def _score(
    queries: Float32s,
    references: Float32s,
    chosen: dict[str, ImageSet],
    truth: GroundTruth,
) -> float:
    found, among = (
        Vectors(chosen[part].ids, vectors, np.zeros(len(vectors), bool))
        for part, vectors in (("query", queries), ("reference", references))
    )
    return evaluate(found, among, truth)[0].micro_average_precision
