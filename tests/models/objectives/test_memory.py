"""Cross-batch memory against loops over the pairs of a batch with it and with all that came before."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.objectives.settings import ContrastiveSettings, InfoNceSettings

Known = list[tuple[Tensor, int]]  # vectors with their classes
BATCHES = [torch.randn(6, 8, generator=torch.Generator().manual_seed(number)) for number in range(4)]
LABELS = [torch.tensor(labels) for labels in ([0, 0, 1, 1, 2, 2], [0, 0, 3, 3, 4, 4], [1, 1, 0, 0, 5, 5], [2, 2, 6, 6, 1, 1])]


def literal_infonce(anchors: Known, before: Known) -> float:
    losses = []
    for i, (x, own) in enumerate(anchors):
        others = [*(pair for j, pair in enumerate(anchors) if j != i), *before]
        negatives = sum(math.exp(float(x @ y) / 0.05) for y, label in others if label != own)
        positives = [math.exp(float(x @ y) / 0.05) for y, label in others if label == own]
        losses += [-math.log(value / (value + negatives)) for value in positives]
    return sum(losses) / len(losses)


def literal_contrastive(anchors: Known, before: Known, violating: bool = False) -> float:
    near, far = [], []
    for i, (x, own) in enumerate(anchors):
        for y, label in [*(pair for j, pair in enumerate(anchors) if j != i), *before]:
            distance = float((x - y).norm())
            if label == own:
                near.append(max(0.0, distance - 0.1))
            else:
                far.append(max(0.0, 1 - distance))
    means = []
    for losses in (near, far):
        counted = [loss for loss in losses if loss > 0 or not violating]
        means.append(sum(counted) / len(counted) if counted else 0.0)
    return sum(means)


@pytest.mark.parametrize(
    ("settings", "literal"),
    [
        (InfoNceSettings(memory=10), literal_infonce),
        (ContrastiveSettings(memory=10, positive_margin=0.1), literal_contrastive),
        (ContrastiveSettings(memory=10, positive_margin=0.1, violating=True), partial(literal_contrastive, violating=True)),
    ],
)
def test_each_image_is_compared_with_the_batch_and_the_last_ten_before_it(
    settings: InfoNceSettings | ContrastiveSettings, literal: Callable[[Known, Known], float]
) -> None:
    objective, before = settings.build(8, 7, 0), Known()
    for step, (batch, labels) in enumerate(zip(BATCHES, LABELS, strict=True)):
        if step == 2:  # as a resumed training goes on
            again = settings.build(8, 7, 0)
            again.load_state_dict(objective.state_dict())
            objective = again
        rows = batch.clone().requires_grad_()
        output = objective(rows, labels)
        anchors = list(zip(functional.normalize(batch.double()), labels.tolist(), strict=True))
        assert float(output.loss.detach()) == pytest.approx(literal(anchors, before), rel=1e-4)
        assert float(output.logs["memory_filled"]) == pytest.approx(min(1.0, 0.6 * (step + 1)))
        output.loss.backward()
        assert rows.grad is not None and rows.grad.isfinite().all() and rows.grad.any()
        before = (before + anchors)[-10:]
    held = objective.state_dict()["classes"].clone()
    objective.eval()(BATCHES[0], LABELS[0])
    assert torch.equal(objective.state_dict()["classes"], held)  # a look does not fill it


def test_a_batch_larger_than_the_memory_leaves_its_last_images() -> None:
    objective = InfoNceSettings(memory=4).build(8, 3, 0)
    objective(BATCHES[0], LABELS[0])
    assert sorted(objective.state_dict()["classes"].tolist()) == [1, 1, 2, 2]


def test_means_over_all_pairs_are_what_there_is_without_the_key() -> None:
    assert ContrastiveSettings(violating=False) == ContrastiveSettings()
