"""Training's and embedding's passes on GPU tensors that torch only pretends to have: it refuses operations across devices.

torch's fake tensors have a device and no values, so that no GPU is needed; the backward pass needs a real one's streams.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from image_copies.augmentations import dataset
from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_batch
from image_copies.models.network.checkpoint import build_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings, HandmadeSettings, JoinedSettings
from image_copies.models.objectives.arcface import _ClassSums, _RoundedClassSums
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer

GPU = torch.device("cuda", 0)
RECIPE = {
    "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
    "precision": "bf16",
    "stages": [{"image_size": 32, "batch_size": 8}],
}


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Constants of pixels are kept: those of a fake GPU must not outlive a test."""
    dataset._cached_constants.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=2**34))
    yield
    dataset._cached_constants.cache_clear()


def move(module: nn.Module) -> nn.Module:
    """Put a module of real tensors on the fake GPU, in place; without values."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and parameter.device != GPU:
                empty = torch.empty_strided(parameter.shape, parameter.stride(), device=GPU)
                part._parameters[name] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=GPU)
    return module


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"objective": {"kind": "softmax"}},
        {"objective": {"kind": "arcface", "rounded_rows": True}},
        {"svmax": {}},
        {"turn": True},
        {"precision": "32"},
    ],
    ids=str,
)
def test_a_step_stays_on_its_gpu(change: dict[str, Any]) -> None:
    settings = ModelSettings.model_validate(RECIPE | change)
    descriptor = Descriptor(settings.descriptor)
    descriptor.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
    objective = settings.build_objective(descriptor.dimensions, 12, 0)
    trainer = Trainer(settings, ImageSet([], []), ImageSet([], []), Path(), Path(), seed=0)
    fabric: Any = SimpleNamespace(
        device=GPU,
        to_device=move,
        setup_optimizers=lambda optimizer: optimizer,
        autocast=lambda: torch.autocast("cuda", torch.bfloat16, enabled=settings.precision == "bf16"),
    )
    with FakeTensorMode():
        move(descriptor)
        trainer.fabric, trainer.descriptor, trainer.network = fabric, descriptor, descriptor
        trainer.prepare(objective)
        pixels, labels = torch.zeros(8, 3, 32, 32, dtype=torch.uint8), torch.arange(8, device=GPU)
        output = trainer.compute_batch_loss(pixels, labels, torch.arange(8))
        assert output.loss.device == GPU and output.loss.dtype == torch.float32
        assert all(value.device == GPU for value in output.logs.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("sums", [_ClassSums, _RoundedClassSums])
def test_the_gradients_of_the_class_matrix_stay_on_the_gpu(sums: Any) -> None:
    """The backward pass called by hand, with what the forward pass has left."""
    with FakeTensorMode():
        embeddings, matrix, labels = torch.zeros(8, 16, device=GPU), torch.zeros(12, 16, device=GPU), torch.arange(8, device=GPU)
        kept = SimpleNamespace(needs_input_grad=(True, True))
        kept.save_for_backward = lambda *tensors: setattr(kept, "saved_tensors", tensors)
        own, others = sums.forward(kept, embeddings, matrix, labels, 16.0, 5, torch.bfloat16)
        to_embeddings, to_matrix, *_ = sums.backward(kept, own, others)
    for gradient, of in ((to_embeddings, embeddings), (to_matrix, matrix)):
        assert gradient.device == GPU and gradient.dtype == torch.float32 and gradient.shape == of.shape


NETWORK = {"backbone": "test_efficientnet", "dimensions": 8}
MEMBERS = [{"descriptor": NETWORK, "image_size": 32, "flips": True}, {"descriptor": {"kind": "gabor"}, "image_size": 48}]


@pytest.mark.parametrize(
    "settings",
    [
        DescriptorSettings.model_validate(NETWORK | {"whiten": True}),
        HandmadeSettings(kind="gabor", dimensions=8),
        JoinedSettings.model_validate({"members": MEMBERS, "dimensions": 12}),
    ],
    ids=lambda settings: getattr(settings, "kind", type(settings).__name__),
)
def test_embedding_stays_on_its_gpu(settings: DescriptorSettings | HandmadeSettings | JoinedSettings) -> None:
    descriptor = build_descriptor(settings).eval()
    with FakeTensorMode():
        move(descriptor)
        pixels = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
        images = dataset.normalize_pixels(pixels.to(GPU), descriptor.mean, descriptor.std)
        vectors = embed_batch(descriptor, images, flip=True, precision="bf16")
        assert vectors.device == GPU and vectors.shape == (4, descriptor.dimensions)
