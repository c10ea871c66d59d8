"""Claims 2 to 6: repeated augmentations, margin loss, p* at larger input, the trade-off of λ, one embedding for all."""

from typing import Any

import numpy as np
import torch
from claim_rows.row import Row, gaps, listed
from claim_rows.store import Figures
from claim_rows.training import SIZE, Bench, Trained, vectors_of
from numpy.typing import NDArray

from models.network.whitening import compute_folded_logits
from models.training.classifier import load_classifier
from submissions.scoring.retrieval import in_aug_accuracy, recall_at

REPEATED = {"kind": "repeated", "copies": 3}
WHITENED = {"backbone": "test_efficientnet", "dimensions": 64, "train_pooling_exponent": False, "whiten": True}
LARGER = 2 * SIZE
SWEEP = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # λ (MultiGrain, section 4.3: six of them)
NEAR = 0.9  # of the specialist's figure counts as serving a task


def rows(bench: Bench) -> list[Row]:
    """Uniform sampling, and repeated augmentations at each λ of the sweep."""
    arms: dict[str, dict[str, Any]] = {"uniform": {"objective": {"kind": "softmax"}}}
    for weight in SWEEP:
        arms[_arm(weight)] = {"objective": {"kind": "multigrain", "weight": weight}, "sampling": REPEATED}
    measured = {
        name: bench.figures(name, lambda trained: _measure(bench, trained), descriptor=WHITENED, **arm)
        for name, arm in arms.items()
    }

    def values(figure: str, *names: str) -> dict[str, list[float]]:
        return {name: measured[name][figure] for name in names or arms}

    uniform, plain, joint, copies = "uniform", _arm(1.0), _arm(0.5), _arm(0.1)
    sweep = [_arm(weight) for weight in SWEEP]
    shapes = bench.shapes
    best = max(float(np.mean(runs)) for runs in values("top1").values())
    classes: dict[str, Any] = {"smallest": 0.02, "learnt": (best, 1 / len(shapes.train.names), "top-1 of the best side")}
    found = max(float(np.mean(runs)) for runs in values("copies").values())
    chance = shapes.test_copies.copies**2 / len(shapes.test_copies.groups)  # of 5 drawn among all copies
    of_copies: dict[str, Any] = {"smallest": 0.1, "learnt": (found, chance, "copies of 5 of the best side")}
    return [
        Row(
            "2",
            "repeated augmentations help at equal steps",
            "76.2 → 76.8 % top-1",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", uniform, plain)),
            gaps(values("top1")[plain], values("top1")[uniform]),
            **classes,
            cause="each batch holds a third of the images; so short a training has not made up for it",
        ),
        Row(
            "3",
            "the margin loss on top helps",
            "76.8 → 77.0 % top-1, 77.4 % at p = 3",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", plain, joint)),
            gaps(values("top1")[joint], values("top1")[plain]),
            **classes,
            cause="the margin loss takes half of the gradient from few steps",
        ),
        Row(
            "4a",
            f"p* > p helps at larger input ({LARGER} px for {SIZE})",
            "figure 4c, a plot of IN-aug accuracy; p* 4 at 500 and 5 at 800 px for λ .5 (ICLR, section 3.5)",
            f"{bench.about}; p* among 1 … 10 on copies of training images, scored on copies of held-out ones; λ .5",
            f"p* {', '.join(str(int(p)) for p in values('best_p', joint)[joint])}; copies of 5: "
            + listed({"p*": values("larger_best")[joint], "p 3": values("larger_3")[joint]}),
            gaps(values("larger_best")[joint], values("larger_3")[joint]),
            **of_copies,
            cause="at so small a size the smallest p is best for the training copies, and no better for others",
        ),
        Row(
            "4b",
            f"p* > p helps top-1 at larger input ({LARGER} px for {SIZE})",
            "78.0 → 78.6 % top-1 at 500 px (MultiGrain, section 4.4)",
            f"{bench.about}; p* among 1 … 10 on copies of training images; top-1 on held-out images; λ .5",
            listed({"p*": values("top1_best_p", joint)[joint], "p 3": values("top1_3", joint)[joint]}),
            gaps(values("top1_best_p")[joint], values("top1_3")[joint]),
            **classes,
            cause="at so small a size the smallest p is best for the training copies",
        ),
        Row(
            "5a",
            "a small λ is better for copies",
            "figure 5, a plot: best at λ = .1",
            f"{bench.about}; copies of 5 found, held-out images",
            listed(values("copies", *sweep)),
            gaps(values("copies")[copies], values("copies")[plain]),
            **of_copies,
        ),
        Row(
            "5b",
            "a large λ is better for classes",
            "figure 5, a plot: lowest at λ = .1; 77.4 % top-1 at .5, 76.9 % at 1",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", *sweep)),
            gaps(values("top1")[plain], values("top1")[copies]),
            **classes,
            cause="from scratch the margin loss teaches the classes too, as in claim 3",
        ),
        _one_embedding(
            bench,
            values("whitened_top1")[joint],
            values("whitened_recall")[joint],
            values("whitened_copies")[joint],
            values("top1")[plain],
            values("recall")[plain],
            values("copies")[copies],
        ),
    ]


def _one_embedding(
    bench: Bench,
    top1: list[float],
    recall: list[float],
    copies: list[float],
    best_top1: list[float],
    best_recall: list[float],
    best_copies: list[float],
) -> Row:
    pairs = ((top1, best_top1), (recall, best_recall), (copies, best_copies))
    ratios = [[a / b for a, b in zip(ours, best, strict=True)] for ours, best in pairs]
    worst = np.min(ratios, axis=0)
    return Row(
        "6",
        f"one whitened embedding serves class, instance and copy (within {1 - NEAR:.0%} of each specialist)",
        "tables 2 and 3: on a par with specialised networks",
        f"{bench.about}; λ .5 whitened and folded, against λ 1 (top-1, class R@1) and λ .1 (copies)",
        "share of the specialist: " + listed(dict(zip(("top-1", "class R@1", "copies"), ratios, strict=True))),
        tuple(float(ratio - NEAR) for ratio in worst),
        smallest=0.05,
        cause="one of the three tasks lost more",
    )


def _arm(weight: float) -> str:
    return f"repeated, λ {weight:g}"


def _measure(bench: Bench, trained: Trained) -> Figures:
    shapes, descriptor = bench.shapes, trained.descriptor
    weight, bias = load_classifier(trained.folder / "stage-1.safetensors")
    raw = torch.from_numpy(vectors_of(descriptor, shapes.held_out.images, raw=True))
    whitening = descriptor.whitening()
    if whitening is None:
        raise RuntimeError("the training left no whitening")
    labels = torch.from_numpy(shapes.held_out.labels)
    copies = vectors_of(descriptor, shapes.test_copies, raw=True)
    scores = {
        p: in_aug_accuracy(_unit(vectors_of(descriptor, shapes.train_copies, LARGER, p, raw=True)), shapes.train_copies.groups)
        for p in range(1, 11)
    }
    best = max(scores, key=lambda p: scores[p])
    larger = {
        p: in_aug_accuracy(_unit(vectors_of(descriptor, shapes.test_copies, LARGER, p, raw=True)), shapes.test_copies.groups)
        for p in {best, 3}
    }
    at_larger = {p: torch.from_numpy(vectors_of(descriptor, shapes.held_out.images, LARGER, p, raw=True)) for p in {best, 3}}
    top1 = {p: float(((found @ weight.T + bias).argmax(1) == labels).float().mean()) for p, found in at_larger.items()}
    return {
        "top1_best_p": top1[best],
        "top1_3": top1[3],
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
