"""The memory format that a network runs in: measured on a GPU, whose times stand-ins give here."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network import memory_format
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.memory_format import choose_memory_format, measure_memory_formats
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training import trainer
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from tests import trainings

SETTINGS = DescriptorSettings(backbone="test_efficientnet", dimensions=16)
GPU, CPU = torch.device("cuda"), torch.device("cpu")


def build(seed: int = 0) -> Descriptor:
    torch.manual_seed(seed)
    return Descriptor(SETTINGS).eval()


@pytest.mark.parametrize(
    ("last", "contiguous", "chosen"),
    [(1.0, 0.4, torch.contiguous_format), (1.0, 0.95, torch.channels_last), (0.4, 1.0, torch.channels_last)],
)
def test_the_clearly_faster_one_is_chosen(
    monkeypatch: pytest.MonkeyPatch, last: float, contiguous: float, chosen: torch.memory_format
) -> None:
    monkeypatch.setattr(memory_format, "measure_memory_formats", lambda *_: (last, contiguous))
    assert choose_memory_format(build(), GPU, 32, 4, "32", learns=True) is chosen
    assert choose_memory_format(build(), CPU, 32, 4, "32", learns=True) is torch.channels_last


def test_a_card_without_room_for_a_measurement_keeps_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(memory_format, "measure_memory_formats", full)
    assert choose_memory_format(build(), GPU, 32, 4, "32", learns=True) is torch.channels_last


@pytest.mark.parametrize("learns", [True, False])
def test_measuring_changes_neither_network_nor_random_numbers(learns: bool) -> None:
    descriptor = build().train()
    before, drawn = copy.deepcopy(descriptor.state_dict()), torch.get_rng_state()
    seconds = measure_memory_formats(descriptor, CPU, 32, 2, "32", learns)
    assert min(seconds) > 0 and torch.equal(torch.get_rng_state(), drawn)
    assert descriptor.training and all(torch.equal(value, before[name]) for name, value in descriptor.state_dict().items())
    assert all(parameter.grad is None for parameter in descriptor.parameters())


def formats_of_convolutions(descriptor: Descriptor) -> set[bool]:
    """Whether the images that reach the convolutions, and their weights, are in channels_last."""
    seen = set[bool]()

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.add(inputs[0].is_contiguous(memory_format=torch.channels_last))
        seen.add(module.weight.is_contiguous(memory_format=torch.channels_last))  # type: ignore[operator]

    first = next(module for module in descriptor.backbone.modules() if isinstance(module, nn.Conv2d))
    first.register_forward_pre_hook(note)
    return seen


@pytest.mark.parametrize("chosen", [torch.channels_last, torch.contiguous_format])
def test_embedding_keeps_to_the_format(images: ImageSet, chosen: torch.memory_format) -> None:
    """Pixels are normalised in channels_last: a convolution would otherwise take that from its input."""
    descriptor, images = build(), images.select(images.ids[:3])
    descriptor.arrange(chosen)
    seen = formats_of_convolutions(descriptor)
    (block,) = embed_images(Checkpoint(descriptor, 32, {}), images, EmbeddingSettings(workers=0))
    assert seen == {chosen is torch.channels_last}
    (expected,) = embed_images(Checkpoint(build(), 32, {}), images, EmbeddingSettings(workers=0))
    assert torch.allclose(torch.from_numpy(block.vectors), torch.from_numpy(expected.vectors), atol=1e-5)


def test_a_resumed_stage_keeps_its_format_and_a_deterministic_one_is_not_measured(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: Callable[[int], list[Trainer]]
) -> None:
    measured = list[int]()
    settings = trainings.make_settings(stages=[{"image_size": 32, "batch_size": 4, "epochs": 2}])

    def choose(*_: object, **__: object) -> torch.memory_format:
        measured.append(1)
        return torch.contiguous_format if len(measured) == 1 else torch.channels_last

    monkeypatch.setattr(trainer, "choose_memory_format", choose)
    steps = stop_at(2)

    def train(chosen: ModelSettings, folder: str) -> None:
        trainings.train(chosen, images.select(images.ids[:8]), tmp_path / folder)

    with pytest.raises(KeyboardInterrupt):
        train(settings, "one")
    train(settings, "one")
    assert {step.descriptor.memory_format for step in steps} == {torch.contiguous_format}
    assert measured == [1] and len(steps) == 5
    train(settings.model_copy(update={"deterministic": True}), "two")
    assert measured == [1] and steps[-1].descriptor.memory_format is torch.channels_last
