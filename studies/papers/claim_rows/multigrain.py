"""Claims 2 to 6: repeated augmentations, margin loss, p* at larger input, the trade-off of λ, one embedding for all."""

from typing import Any

import numpy as np
import torch
from claim_rows.claim import Arm, Claim, Comparison, Measured, Side, find_learnt
from claim_rows.row import Difference, Row, format_sides
from claim_rows.training import COPIED_IMAGES, COPIES, Bench, Trained, show_images, vectors_of
from measurements import Figures
from numpy.typing import NDArray

from image_copies.models.inference.protocols import embed_at_exponents
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.whitening import compute_folded_logits
from image_copies.models.training.classifier import load_classifier
from image_copies.models.training.curve import stage_checkpoint
from image_copies.submissions.scoring.retrieval import in_aug_accuracy, recall_at

REPEATED: dict[str, Any] = {"kind": "repeated", "copies": 3}
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
    uniform = bench.arm(
        "uniform", _measure, _measure_start, descriptor={"whiten": True}, objective={"kind": "softmax"}
    )
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
        _measure_start,
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
        {weight: Side(arm.name, arm, figure) for weight, arm in arms.items()} for figure in ("copies", "top1")
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
    serves = f"one whitened embedding serves {task} (within {1 - MIN_SPECIALIST_SHARE:.0%} of the specialist)"
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
    whitening = descriptor.whitening()
    if whitening is None:
        raise RuntimeError("the training left no whitening")
    labels = torch.from_numpy(sets.held_out.labels)

    def score_classes(logits: torch.Tensor) -> float:
        return float((logits.argmax(1) == labels).float().mean())

    of_training = embed_at_exponents(
        descriptor, show_images(sets.train_copies, LARGER * side), EXPONENTS, raw=True
    )
    scores = {p: in_aug_accuracy(_unit(found), sets.train_copies.groups) for p, found in of_training.items()}
    best = max(scores, key=lambda p: scores[p])
    of_copies = embed_at_exponents(
        descriptor, show_images(sets.test_copies, LARGER * side), sorted({best, 3.0}), raw=True
    )
    larger = {p: in_aug_accuracy(_unit(found), sets.test_copies.groups) for p, found in of_copies.items()}
    of_held_out = embed_at_exponents(
        descriptor, show_images(sets.held_out.images, LARGER * side), sorted({best, 3.0}), raw=True
    )
    top1 = {p: score_classes(torch.from_numpy(found) @ weight.T + bias) for p, found in of_held_out.items()}
    raw = torch.from_numpy(vectors_of(descriptor, sets.held_out.images, side, raw=True))
    copies = vectors_of(descriptor, sets.test_copies, side, raw=True)
    shares = [float(row["class_gradient"]) for row in trained.curve if row.get("class_gradient")]
    return {
        "top1_best_p": top1[best],
        "top1_3": top1[3.0],
        "top1": score_classes(raw @ weight.T + bias),
        "recall": recall_at(_unit(raw.numpy()), sets.held_out.labels, (1,))[1],
        "copies": in_aug_accuracy(_unit(copies), sets.test_copies.groups),
        "whitened_top1": score_classes(compute_folded_logits(raw, whitening, weight, bias)),
        "whitened_recall": recall_at(
            vectors_of(descriptor, sets.held_out.images, side), sets.held_out.labels, (1,)
        )[1],
        "whitened_copies": in_aug_accuracy(
            vectors_of(descriptor, sets.test_copies, side), sets.test_copies.groups
        ),
        "best_p": float(best),
        "larger_best": larger[best],
        "larger_3": larger[3.0],
    } | ({"gradient_first": shares[0], "gradient_last": shares[-1]} if shares else {})


def _measure_start(bench: Bench, descriptor: Descriptor) -> Figures:
    """The figures by which a network has to have learnt; a classifier that begins at random knows no class."""
    sets, side = bench.sets, bench.side
    known = _of_classes(bench)[0]
    return {
        **dict.fromkeys(("top1_best_p", "top1_3", "top1"), known),
        "recall": recall_at(
            _unit(vectors_of(descriptor, sets.held_out.images, side, raw=True)), sets.held_out.labels, (1,)
        )[1],
        "copies": in_aug_accuracy(
            _unit(vectors_of(descriptor, sets.test_copies, side, raw=True)), sets.test_copies.groups
        ),
    }


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
