"""Claims 2 to 6: repeated augmentations, margin loss, p* at larger input, the trade-off of λ, one embedding for all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from image_copies.data.arrays import Float32s
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.models.inference.protocols import embed_shown
from image_copies.models.training.classifier import load_classifier
from image_copies.models.training.curve import stage_checkpoint

from ..claims.claim import Arm, Claim, Comparison, Figures, Measured, Side, find_learnt
from ..claims.row import Difference, Row, format_sides
from ..claims.training import Bench, Trained
from .in_aug import InAug, InAugImages, choose_in_aug
from .metrics import in_aug_accuracy, recall_at
from .pooling_exponent import embed_at_exponents
from .whitening import compute_folded_logits

REPEATED: dict[str, Any] = {"kind": "repeated", "copies": 3}
COPIED_IMAGES, COPIES = 60, 5  # images copied for IN-aug, at most, and copies of each
LARGER = 2  # times the side of the input
EXPONENTS = tuple(range(1, 11))  # among which p* is chosen
SWEPT_WEIGHTS = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # λ (MultiGrain, section 4.3: six of them)
MIN_SPECIALIST_SHARE = 0.9  # of the specialist's figure counts as serving a task
CLASS_EFFECT, COPY_EFFECT = 0.02, 0.1  # smallest effects that matter: of top-1, and of copies found of 5


def name_weight(weight: float) -> str:
    """Return the name of the arm with repeated augmentations at a weight λ."""
    return f"repeated, λ {weight:g}"


def list_claims(bench: Bench) -> list[Claim]:
    """Uniform sampling, and repeated augmentations at each λ of the sweep."""
    arms = {weight: _train_repeated(bench, weight) for weight in SWEPT_WEIGHTS}
    uniform = bench.arm("uniform", _measure, descriptor={"whiten": True}, objective={"kind": "softmax"})
    return [
        *_training_helps(bench, uniform, arms),
        *_weights(bench, arms),
        *_one(bench, arms),
        _larger_for_classes(bench, arms),
        _larger_for_copies(bench, arms),
        *_gradients(bench, arms),
    ]


def _train_repeated(bench: Bench, weight: float) -> Arm:
    objective = {"kind": "multigrain", "weight": weight}
    return bench.arm(
        name_weight(weight),
        _measure,
        descriptor={"whiten": True},
        objective=objective,
        sampling=REPEATED,
    )


def _training_helps(bench: Bench, uniform: Arm, arms: dict[float, Arm]) -> list[Claim]:
    """Claims 2 and 3: repeated augmentations, and the margin loss on top."""
    ran = f"{bench.about}; top-1 on held-out images"
    plain, joint = (Side(arms[weight].name, arms[weight], "top1") for weight in (1.0, 0.5))
    compared = [
        Comparison(
            "2",
            "repeated augmentations help at equal steps",
            "76.2 → 76.8 % top-1",
            ran,
            plain,
            Side("uniform", uniform, "top1"),
            CLASS_EFFECT,
            _of_classes(bench),
        ),
        Comparison(
            "3",
            "the margin loss on top helps",
            "76.8 → 77.0 % top-1, 77.4 % at p = 3",
            ran,
            joint,
            plain,
            CLASS_EFFECT,
            _of_classes(bench),
            cause="the margin loss takes half of the gradient from few steps",
        ),
    ]
    return [comparison.as_claim() for comparison in compared]


def _larger_for_classes(bench: Bench, arms: dict[float, Arm]) -> Claim:
    return Comparison(
        "4b",
        f"p* > p helps top-1 at larger input ({LARGER * bench.side} px for {bench.side})",
        "78.0 → 78.6 % top-1 at 500 px (MultiGrain, section 4.4)",
        f"{bench.about}; p* among 1 … 10 on copies of training images; top-1 on held-out images; λ .5",
        Side("p*", arms[0.5], "top1_best_p"),
        Side("p 3", arms[0.5], "top1_3"),
        CLASS_EFFECT,
        _of_classes(bench),
        note=lambda measured: _list_exponents(measured, arms[0.5]),
        cause="at so small a size the smallest p is best for the training copies",
    ).as_claim()


def _larger_for_copies(bench: Bench, arms: dict[float, Arm]) -> Claim:
    return Comparison(
        "4a",
        f"p* > p helps at larger input ({LARGER * bench.side} px for {bench.side})",
        "figure 4c, a plot of IN-aug accuracy; p* 4 at 500 and 5 at 800 px for λ .5 (ICLR, section 3.5)",
        f"{bench.about}; p* among 1 … 10 on copies of training images, copies of 5 found among those of held-out ones; λ .5",
        Side("p*", arms[0.5], "larger_best"),
        Side("p 3", arms[0.5], "larger_3"),
        COPY_EFFECT,
        _of_copies(),
        note=lambda measured: _list_exponents(measured, arms[0.5]),
        cause="at so small a size the smallest p is best for the training copies, and no better for others",
    ).as_claim()


def _list_exponents(measured: Measured, arm: Arm) -> str:
    return f"p* {', '.join(str(int(p)) for p in measured[arm.name]['best_p'])}"


def _weights(bench: Bench, arms: dict[float, Arm]) -> list[Claim]:
    """Claims 5a and 5b: which λ is better for copies, and which for classes."""
    copies, top1 = (
        {weight: Side(arm.name, arm, figure) for weight, arm in arms.items()}
        for figure in ("copies", "top1")
    )
    between = [weight for weight in arms if weight not in (0.1, 1.0)]
    return [
        Comparison(
            "5a",
            "a small λ is better for copies",
            "figure 5, a plot: best at λ = .1",
            f"{bench.about}; copies of 5 found, held-out images",
            copies[0.1],
            copies[1.0],
            COPY_EFFECT,
            _of_copies(),
            beside=tuple(copies[weight] for weight in between),
        ).as_claim(),
        Comparison(
            "5b",
            "a large λ is better for classes",
            "figure 5, a plot: lowest at λ = .1; 77.4 % top-1 at .5, 76.9 % at 1",
            f"{bench.about}; top-1 on held-out images",
            top1[1.0],
            top1[0.1],
            CLASS_EFFECT,
            _of_classes(bench),
            beside=tuple(top1[weight] for weight in between),
        ).as_claim(),
    ]


def _gradients(bench: Bench, arms: dict[float, Arm]) -> list[Claim]:
    """Claims 5c and 5d: the share of the classes in the gradient, at the beginning and at the end (figure C.1)."""
    joint = arms[0.5]
    between = [arm for weight, arm in arms.items() if weight not in (0.5, 1.0)]
    ran = f"{bench.about}; ‖g_class‖ / (‖g_class‖ + ‖g_copies‖), mean of the first and of the last tenth of the steps"
    chance = 1 / bench.classes[0], "top-1"

    text = "at λ .5 the classes have slightly more weight than the copies at the beginning"

    def judge_beginning(measured: Measured) -> Row:
        shares = {arm.name: measured[arm.name]["gradient_first"] for arm in (joint, *between)}
        return Row(
            "5d",
            text,
            "figure C.1, a plot (ICLR, appendix C)",
            ran,
            f"share at the beginning: {format_sides(shares)}",
            Difference.of([share - 0.5 for share in shares[joint.name]]),
            0.02,
            cause="the terms' gradients depend on the number of classes and on the network's first weights",
        )

    return [
        Comparison(
            "5c",
            "the classes become dominant in the gradient during training (λ .5)",
            "figure C.1, a plot (ICLR, appendix C)",
            ran,
            Side("end", joint, "gradient_last"),
            Side("beginning", joint, "gradient_first"),
            0.02,
            chance,
            skill=(Side("top-1", joint, "top1"),),
            beside=tuple(Side(f"end, {arm.name}", arm, "gradient_last") for arm in between),
            cause="so short a training has not learnt to cancel the edits",
        ).as_claim(),
        Claim("5d", text, (joint, *between), judge_beginning),
    ]


def _one(bench: Bench, arms: dict[float, Arm]) -> list[Claim]:
    """Claim 6: one embedding for classes, instances and copies against a specialist of each."""
    plain, joint, copies = (arms[weight] for weight in (1.0, 0.5, 0.1))
    tasks = (
        ("a", "top-1", Side("λ 1", plain, "top1"), _of_classes(bench), CLASS_EFFECT),
        ("b", "class R@1", Side("λ 1", plain, "recall"), _of_classes(bench), CLASS_EFFECT),
        ("c", "copies", Side("λ .1", copies, "copies"), _of_copies(), COPY_EFFECT),
    )
    return [_one_task(bench, joint, *task) for task in tasks]


def _one_task(
    bench: Bench, joint: Arm, letter: str, task: str, best: Side, chance: tuple[float, str], least: float
) -> Claim:
    """The row of a task: the whitened embedding's share of the specialist's figure."""
    serves = (
        f"one whitened embedding serves {task} (within {1 - MIN_SPECIALIST_SHARE:.0%} of the specialist)"
    )
    name = f"{best.label}'s {chance[1]}"

    def judge(measured: Measured) -> Row:
        ours = measured[joint.name][f"whitened_{best.figure}"]
        shares = [one / other for one, other in zip(ours, best.runs(measured), strict=True)]
        return Row(
            f"6{letter}",
            serves,
            "tables 2 and 3: on a par with specialised networks",
            f"{bench.about}; λ .5 against {best.label}; whitening is learnt from the training images, and folded",
            f"share of the specialist's {task}: " + format_sides({"whitened": shares}),
            Difference.of(np.subtract(shares, MIN_SPECIALIST_SHARE)),
            smallest=0.05,
            learnt=find_learnt(measured, (best,), (chance[0], name), least),
        )

    return Claim(f"6{letter}", serves, (joint, best.arm), judge)


def _of_classes(bench: Bench) -> tuple[float, str]:
    """The top-1 of a network that has learnt nothing."""
    return 1 / bench.classes[0], "top-1"


def _of_copies() -> tuple[float, str]:
    """The copies of 5 that a network that has learnt nothing finds."""
    return COPIES**2 / (COPIES * COPIED_IMAGES), "copies of 5"


def _measure(bench: Bench, trained: Trained) -> Figures:
    sets = bench.sets
    descriptor = trained.descriptor
    side = bench.side
    weight, bias = load_classifier(stage_checkpoint(trained.folder, 1))
    of_training = choose_in_aug(sets.train, 1, COPIED_IMAGES, COPIES)
    of_held_out = choose_in_aug(sets.held_out, 2, COPIED_IMAGES, COPIES)
    labels = torch.from_numpy(sets.held_out.labels)

    def score_classes(logits: torch.Tensor) -> float:
        return float((logits.argmax(1) == labels).float().mean())

    def score_copies(copies: InAug, exponents: Sequence[float]) -> dict[float, float]:
        """The copies of 5 that are found at the larger size, by exponent."""
        shown = InAugImages(copies, LARGER * side)
        found = embed_at_exponents(descriptor, shown, exponents, raw=True)
        return {p: in_aug_accuracy(_unit(vectors), copies.groups) for p, vectors in found.items()}

    scores = score_copies(of_training, EXPONENTS)
    best = max(scores, key=lambda p: scores[p])
    compared = sorted({best, 3.0})
    larger = score_copies(of_held_out, compared)
    large = embed_at_exponents(
        descriptor, PreprocessedImages(sets.held_out.images, LARGER * side), compared, raw=True
    )
    top1 = {p: score_classes(torch.from_numpy(found) @ weight.T + bias) for p, found in large.items()}
    shown, copies = PreprocessedImages(sets.held_out.images, side), InAugImages(of_held_out, side)
    raw = torch.from_numpy(embed_shown(descriptor, shown, raw=True)[0])
    whitened, whitened_copies = embed_shown(descriptor, shown)[0], embed_shown(descriptor, copies)[0]
    shares = [float(row["class_gradient"]) for row in trained.curve if row.get("class_gradient")]
    return {
        "top1_best_p": top1[best],
        "top1_3": top1[3.0],
        "top1": score_classes(raw @ weight.T + bias),
        "recall": recall_at(_unit(raw.numpy()), sets.held_out.labels, (1,))[1],
        "copies": in_aug_accuracy(_unit(embed_shown(descriptor, copies, raw=True)[0]), of_held_out.groups),
        "whitened_top1": score_classes(compute_folded_logits(descriptor, raw, weight, bias)),
        "whitened_recall": recall_at(whitened, sets.held_out.labels, (1,))[1],
        "whitened_copies": in_aug_accuracy(whitened_copies, of_held_out.groups),
        "best_p": float(best),
        "larger_best": larger[best],
        "larger_3": larger[3.0],
    } | ({"gradient_first": shares[0], "gradient_last": shares[-1]} if shares else {})


def _unit(vectors: Float32s) -> Float32s:
    unit: Float32s = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
