"""Batches of a stage: epochs of a fixed number of iterations, whatever the sampling."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from image_copies.augmentations.dataset import Key
from image_copies.augmentations.sampling import Batches
from image_copies.models.training.batches import build_batches
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import Progress

IMAGES = 30
SAMPLING: list[dict[str, Any]] = [{"kind": "epoch"}, {"kind": "repeated", "copies": 3}, {"kind": "pk", "per_class": 3}]


def built(
    sampling: dict[str, Any], progress: Progress | None = None, rank: int = 0, ranks: int = 1, iterations: int | None = None
) -> Batches:
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": "test_efficientnet"},
            "objective": {"kind": "softmax"},
            "sampling": sampling,
            "stages": [{"batch_size": 6, "epochs": 3, "iterations": iterations}],
        }
    )
    fabric: Any = SimpleNamespace(global_rank=rank, world_size=ranks, device=torch.device("cpu"))
    labels = [row // 5 for row in range(IMAGES)]
    return build_batches(settings, settings.stages[0], range(IMAGES), labels, progress or Progress(), 7, fabric)


@pytest.mark.parametrize("sampling", SAMPLING, ids=lambda sampling: str(sampling["kind"]))
@pytest.mark.parametrize("iterations", [2, 5, 11, 40])
def test_an_epoch_has_the_same_iterations_with_every_sampling(sampling: dict[str, Any], iterations: int) -> None:
    """Of 30 images in batches of 6, one pass would take 5 batches uniformly, 15 repeated and 6 of classes."""
    batches = built(sampling | {"iterations": iterations})
    found = list(batches)
    assert batches.per_epoch == iterations and len(found) == 3 * iterations
    for epoch in range(3):
        keys = [key for batch in found[epoch * iterations : (epoch + 1) * iterations] for key in batch]
        assert {key[0] for key in keys} == {epoch}
        assert len(set(keys)) == len(keys), "an image that comes again must be edited again"


@pytest.mark.parametrize("sampling", SAMPLING, ids=lambda sampling: str(sampling["kind"]))
def test_a_stage_has_iterations_of_its_own_and_those_of_a_pass_are_a_pass(sampling: dict[str, Any]) -> None:
    assert built(sampling | {"iterations": 7}, iterations=4).per_epoch == 4
    passes = built(sampling)
    assert list(built(sampling, iterations=passes.per_epoch)) == list(passes)


def test_every_pass_of_an_epoch_has_an_order_of_its_own_and_all_images() -> None:
    found = list(built({"kind": "epoch", "iterations": 10}))
    first, second = ([row for batch in found[part : part + 5] for _, row, _ in batch] for part in (0, 5))
    assert Counter(first) == Counter(second) == Counter(range(IMAGES)) and first != second


def test_a_fixed_epoch_goes_on_where_it_was_and_is_shared_by_processes() -> None:
    sampling = {"kind": "repeated", "copies": 3, "iterations": 17}
    whole = list(built(sampling))
    assert list(built(sampling, Progress(epoch=1, batch=16))) == whole[17 + 16 :]
    parts: list[list[list[Key]]] = [list(built(sampling, rank=rank, ranks=2)) for rank in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole


def test_without_the_key_an_epoch_is_one_pass() -> None:
    assert [built(sampling).per_epoch for sampling in SAMPLING] == [5, 15, 6]
