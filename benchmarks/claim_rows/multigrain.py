"""Claims 2 to 6: repeated augmentations, margin loss, p* at larger input, the trade-off of λ, one embedding for all."""

from typing import Any

import numpy as np
import torch
from claim_rows.row import Row, gaps, listed
from claim_rows.training import SIZE, Bench, Trained, train, vectors_of
from numpy.typing import NDArray

from models.network.whitening import compute_folded_logits
from models.training.classifier import load_classifier
from submissions.scoring.retrieval import in_aug_accuracy, recall_at

REPEATED = {"kind": "repeated", "copies": 3}
WHITENED = {"backbone": "test_efficientnet", "dimensions": 64, "train_pooling_exponent": False, "whiten": True}
LARGER = 2 * SIZE
NEAR = 0.9  # of the specialist's figure counts as serving a task


def rows(bench: Bench) -> list[Row]:
    arms: dict[str, dict[str, Any]] = {
        "uniform": {"objective": {"kind": "softmax"}},
        "repeated, λ 1": {"objective": {"kind": "multigrain", "weight": 1.0}, "sampling": REPEATED},
        "repeated, λ .5": {"objective": {"kind": "multigrain", "weight": 0.5}, "sampling": REPEATED},
        "repeated, λ .1": {"objective": {"kind": "multigrain", "weight": 0.1}, "sampling": REPEATED},
    }
    measured = {
        name: [_measure(bench, train(bench, name, s, descriptor=WHITENED, **arm)) for s in bench.seeds]
        for name, arm in arms.items()
    }

    def values(figure: str, *names: str) -> dict[str, list[float]]:
        return {name: [run[figure] for run in measured[name]] for name in names or arms}

    uniform, plain, joint, copies = arms
    return [
        Row(
            "2",
            "repeated augmentations help at equal steps",
            "76.2 → 76.8 % top-1",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", uniform, plain)),
            gaps(values("top1")[plain], values("top1")[uniform]),
            "each batch holds a third of the images; so short a training has not made up for it",
        ),
        Row(
            "3",
            "the margin loss on top helps",
            "76.8 → 77.0 % top-1, 77.4 % at p = 3",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", plain, joint)),
            gaps(values("top1")[joint], values("top1")[plain]),
            "the margin loss takes half of the gradient from few steps",
        ),
        Row(
            "4",
            f"p* > p helps at larger input ({LARGER} px for {SIZE})",
            "figure 4c, a plot of IN-aug accuracy; p* 4 at 500 and 5 at 800 px for λ .5 (ICLR, section 3.5)",
            f"{bench.about}; p* among 1 … 10 on copies of training images, scored on copies of held-out ones; λ .5",
            f"p* {', '.join(str(int(p)) for p in values('best_p', joint)[joint])}; copies of 5: "
            + listed({"p*": values("larger_best")[joint], "p 3": values("larger_3")[joint]}),
            gaps(values("larger_best")[joint], values("larger_3")[joint]),
            "at so small a size the smallest p is best for the training copies, and no better for others",
        ),
        Row(
            "5a",
            "a small λ is better for copies",
            "figure 5, a plot: best at λ = .1",
            f"{bench.about}; copies of 5 found, held-out images",
            listed(values("copies", plain, joint, copies)),
            gaps(values("copies")[copies], values("copies")[plain]),
        ),
        Row(
            "5b",
            "a large λ is better for classes",
            "figure 5, a plot: lowest at λ = .1; 77.4 % top-1 at .5, 76.9 % at 1",
            f"{bench.about}; top-1 on held-out images",
            listed(values("top1", plain, joint, copies)),
            gaps(values("top1")[plain], values("top1")[copies]),
            "from scratch the margin loss teaches the classes too, as in claim 3",
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
        "one of the three tasks lost more",
    )


def _measure(bench: Bench, trained: Trained) -> dict[str, float]:
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
    return {
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
