"""Claims 2 to 6: repeated augmentations, margin loss, p* at larger input, the trade-off of λ, one embedding for all."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from claim_rows.row import Row, format_sides, subtract_runs
from claim_rows.store import Figures
from claim_rows.training import IMAGE_SIDE, Bench, Trained, vectors_of
from numpy.typing import NDArray

from models.network.whitening import compute_folded_logits
from models.training.classifier import load_classifier
from models.training.files import stage_checkpoint
from submissions.scoring.retrieval import in_aug_accuracy, recall_at

REPEATED: dict[str, Any] = {"kind": "repeated", "copies": 3}
WHITENED = {"backbone": "test_efficientnet", "dimensions": 64, "train_pooling_exponent": False, "whiten": True}
LARGER_SIDE = 2 * IMAGE_SIDE
SWEPT_WEIGHTS = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # λ (MultiGrain, section 4.3: six of them)
MIN_SPECIALIST_SHARE = 0.9  # of the specialist's figure counts as serving a task
Measured = dict[str, dict[str, list[float]]]  # by arm and figure, run by run


def _arm(weight: float) -> str:
    return f"repeated, λ {weight:g}"


TRIPLED = "repeated, λ 1, 3 × the steps"
AVERAGE = "off the shelf, p 1"
UNIFORM, PLAIN, JOINT, COPIES = "uniform", _arm(1.0), _arm(0.5), _arm(0.1)


def rows(bench: Bench) -> list[Row]:
    """Uniform sampling, and repeated augmentations at each λ of the sweep."""
    arms: dict[str, dict[str, Any]] = {UNIFORM: {"objective": {"kind": "softmax"}}}
    for weight in SWEPT_WEIGHTS:
        arms[_arm(weight)] = {"objective": {"kind": "multigrain", "weight": weight}, "sampling": REPEATED}
    measured = {
        name: bench.figures(name, lambda trained: _measure(bench, trained), descriptor=WHITENED, **arm)
        for name, arm in arms.items()
    }
    tripled = replace(bench, steps=REPEATED["copies"] * bench.steps)  # as many different images as in uniform batches
    measured[TRIPLED] = tripled.figures(TRIPLED, lambda trained: _measure(bench, trained), descriptor=WHITENED, **arms[PLAIN])
    average = WHITENED | {"pooling_exponent": 1.0}
    measured[AVERAGE] = bench.figures(AVERAGE, lambda trained: _measure(bench, trained), descriptor=average, **arms[UNIFORM])
    return [*_training_helps(bench, measured), *_larger_input(bench, measured), *_weights(bench, measured), _one(bench, measured)]


def _training_helps(bench: Bench, measured: Measured) -> list[Row]:
    """Claims 2 and 3: repeated augmentations, and the margin loss on top."""
    top1 = _values(measured, "top1")

    def compare(number: str, claim: str, paper: str, worse: str, better: str, steps: str, cause: str) -> Row:
        ran = f"{bench.about}{steps}; top-1 on held-out images"
        sides = format_sides({name: top1[name] for name in (worse, better)})
        difference = subtract_runs(top1[better], top1[worse])
        return Row(number, claim, paper, ran, sides, difference, **_of_classes(bench, measured), cause=cause)

    return [
        compare(
            "2",
            "repeated augmentations help at equal steps",
            "76.2 → 76.8 % top-1",
            UNIFORM,
            PLAIN,
            "",
            "each batch holds a third of the images; so short a training has not made up for it",
        ),
        compare(
            "2, cause",
            "repeated augmentations help at equal epochs",
            "76.2 → 76.8 % top-1 at equal steps",
            UNIFORM,
            TRIPLED,
            ", 3 × the steps with repeated augmentations: as many different images",
            "copies teach less than other images, however many there are",
        ),
        compare(
            "3",
            "the margin loss on top helps",
            "76.8 → 77.0 % top-1, 77.4 % at p = 3",
            PLAIN,
            JOINT,
            "",
            "the margin loss takes half of the gradient from few steps",
        ),
    ]


def _larger_input(bench: Bench, measured: Measured) -> list[Row]:
    """Claims 4a to 4c: another pooling exponent at a larger input, for copies, for classes, and for average pooling."""
    joint, average = measured[JOINT], measured[AVERAGE]
    return [
        Row(
            "4a",
            f"p* > p helps at larger input ({LARGER_SIDE} px for {IMAGE_SIDE})",
            "figure 4c, a plot of IN-aug accuracy; p* 4 at 500 and 5 at 800 px for λ .5 (ICLR, section 3.5)",
            f"{bench.about}; p* among 1 … 10 on copies of training images, scored on copies of held-out ones; λ .5",
            f"p* {', '.join(str(int(p)) for p in joint['best_p'])}; copies of 5: "
            + format_sides({"p*": joint["larger_best"], "p 3": joint["larger_3"]}),
            subtract_runs(joint["larger_best"], joint["larger_3"]),
            **_of_copies(bench, measured),
            cause="at so small a size the smallest p is best for the training copies, and no better for others",
        ),
        Row(
            "4b",
            f"p* > p helps top-1 at larger input ({LARGER_SIDE} px for {IMAGE_SIDE})",
            "78.0 → 78.6 % top-1 at 500 px (MultiGrain, section 4.4)",
            f"{bench.about}; p* among 1 … 10 on copies of training images; top-1 on held-out images; λ .5",
            format_sides({"p*": joint["top1_best_p"], "p 3": joint["top1_3"]}),
            subtract_runs(joint["top1_best_p"], joint["top1_3"]),
            **_of_classes(bench, measured),
            cause="at so small a size the smallest p is best for the training copies",
        ),
        Row(
            "4c",
            f"p* > p helps a classifier with average pooling at larger input ({LARGER_SIDE} px for {IMAGE_SIDE})",
            "81.3 → 83.1 % top-1 of SENet154 at 450 px, p* 1.6 (ICLR, table E.1 of appendix G)",
            f"{bench.about}; uniform batches, cross entropy, p 1; p* among 1 … 10 on copies of training images; "
            "top-1 on held-out images",
            f"p* {', '.join(str(int(p)) for p in average['best_p'])}; "
            + format_sides({"p*": average["top1_best_p"], "p 1": average["top1_own_p"]}),
            subtract_runs(average["top1_best_p"], average["top1_own_p"]),
            **_of_classes(bench, measured),
            cause="a classifier trained with average pooling is best with it",
        ),
    ]


def _weights(bench: Bench, measured: Measured) -> list[Row]:
    """Claims 5a and 5b: which λ is better for copies, and which for classes."""
    sweep = [_arm(weight) for weight in SWEPT_WEIGHTS]
    copies, top1 = _values(measured, "copies"), _values(measured, "top1")
    return [
        Row(
            "5a",
            "a small λ is better for copies",
            "figure 5, a plot: best at λ = .1",
            f"{bench.about}; copies of 5 found, held-out images",
            format_sides({name: copies[name] for name in sweep}),
            subtract_runs(copies[COPIES], copies[PLAIN]),
            **_of_copies(bench, measured),
        ),
        Row(
            "5b",
            "a large λ is better for classes",
            "figure 5, a plot: lowest at λ = .1; 77.4 % top-1 at .5, 76.9 % at 1",
            f"{bench.about}; top-1 on held-out images",
            format_sides({name: top1[name] for name in sweep}),
            subtract_runs(top1[PLAIN], top1[COPIES]),
            **_of_classes(bench, measured),
            cause="from scratch the margin loss teaches the classes too, as in claim 3",
        ),
    ]


def _one(bench: Bench, measured: Measured) -> Row:
    """Claim 6: one embedding for classes, instances and copies, against a specialist of each."""
    specialists = {
        "top-1": ("whitened_top1", measured[PLAIN]["top1"]),
        "class R@1": ("whitened_recall", measured[PLAIN]["recall"]),
        "copies": ("whitened_copies", measured[COPIES]["copies"]),
    }
    ratios = {
        task: [ours / best for ours, best in zip(measured[JOINT][figure], specialist, strict=True)]
        for task, (figure, specialist) in specialists.items()
    }
    worst = np.min(list(ratios.values()), axis=0)
    return Row(
        "6",
        f"one whitened embedding serves class, instance and copy (within {1 - MIN_SPECIALIST_SHARE:.0%} of each specialist)",
        "tables 2 and 3: on a par with specialised networks",
        f"{bench.about}; λ .5 whitened and folded, against λ 1 (top-1, class R@1) and λ .1 (copies)",
        "share of the specialist: " + format_sides(ratios),
        tuple(float(ratio - MIN_SPECIALIST_SHARE) for ratio in worst),
        smallest=0.05,
        cause="one of the three tasks lost more",
    )


def _of_classes(bench: Bench, measured: Measured) -> dict[str, Any]:
    """What a claim about top-1 needs to be decided."""
    best = max(float(np.mean(runs)) for runs in _values(measured, "top1").values())
    return {"smallest": 0.02, "learnt": (best, 1 / len(bench.shapes.train.names), "top-1 of the best side")}


def _of_copies(bench: Bench, measured: Measured) -> dict[str, Any]:
    """What a claim about copies found needs to be decided."""
    copies = bench.shapes.test_copies
    best = max(float(np.mean(runs)) for runs in _values(measured, "copies").values())
    chance = copies.copies**2 / len(copies.groups)  # of 5 drawn among all copies
    return {"smallest": 0.1, "learnt": (best, chance, "copies of 5 of the best side")}


def _values(measured: Measured, figure: str) -> dict[str, list[float]]:
    """One figure of every arm."""
    return {name: figures[figure] for name, figures in measured.items()}


def _measure(bench: Bench, trained: Trained) -> Figures:
    shapes, descriptor = bench.shapes, trained.descriptor
    weight, bias = load_classifier(stage_checkpoint(trained.folder, 1))
    raw = torch.from_numpy(vectors_of(descriptor, shapes.held_out.images, raw=True))
    whitening = descriptor.whitening()
    if whitening is None:
        raise RuntimeError("the training left no whitening")
    labels = torch.from_numpy(shapes.held_out.labels)
    copies = vectors_of(descriptor, shapes.test_copies, raw=True)
    scores = {
        p: in_aug_accuracy(
            _unit(vectors_of(descriptor, shapes.train_copies, LARGER_SIDE, p, raw=True)), shapes.train_copies.groups
        )
        for p in range(1, 11)
    }
    best = max(scores, key=lambda p: scores[p])
    larger = {
        p: in_aug_accuracy(_unit(vectors_of(descriptor, shapes.test_copies, LARGER_SIDE, p, raw=True)), shapes.test_copies.groups)
        for p in {best, 3}
    }
    own = round(descriptor.settings.pooling_exponent)
    at_larger = {
        p: torch.from_numpy(vectors_of(descriptor, shapes.held_out.images, LARGER_SIDE, p, raw=True)) for p in {best, 3, own}
    }
    top1 = {p: float(((found @ weight.T + bias).argmax(1) == labels).float().mean()) for p, found in at_larger.items()}
    return {
        "top1_best_p": top1[best],
        "top1_3": top1[3],
        "top1_own_p": top1[own],
        "top1": float(((raw @ weight.T + bias).argmax(1) == labels).float().mean()),
        "recall": recall_at(_unit(raw.numpy()), shapes.held_out.labels, (1,))[1],
        "copies": in_aug_accuracy(_unit(copies), shapes.test_copies.groups),
        "whitened_top1": float((compute_folded_logits(raw, whitening, weight, bias).argmax(1) == labels).float().mean()),
        "whitened_recall": recall_at(vectors_of(descriptor, shapes.held_out.images), shapes.held_out.labels, (1,))[1],
        "whitened_copies": in_aug_accuracy(vectors_of(descriptor, shapes.test_copies), shapes.test_copies.groups),
        "best_p": float(best),
        "larger_best": larger[best],
        "larger_3": larger[3],
    }


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
