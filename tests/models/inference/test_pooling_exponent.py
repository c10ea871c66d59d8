import math
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.errors import UserError
from image_copies.models.inference.pooling_exponent import LearningSettings, embed_at_exponents, learn_exponent
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings

IMAGES = [
    torch.randint(30 + 22 * number, (3, 64, 64), generator=torch.Generator().manual_seed(number), dtype=torch.uint8)
    for number in range(10)
]
DATASET = cast(Dataset[tuple[Tensor, bool]], [(image, True) for image in IMAGES])
LABELS = np.arange(10) % 3


@pytest.fixture
def descriptor() -> Descriptor:
    torch.manual_seed(0)
    return Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)).eval()


@pytest.fixture
def classifier() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 16, generator=generator), torch.randn(3, generator=generator)


@torch.no_grad()
def maps(descriptor: Descriptor) -> list[list[list[float]]]:
    """Image → channel → values above 1e-6, as the pooling sees them."""
    pixels = torch.stack(IMAGES)
    features = descriptor.features(normalize_pixels(pixels, descriptor.mean, descriptor.std)).double().clamp(min=1e-6)
    return features.flatten(2).tolist()


def raw_embedding(descriptor: Descriptor, image: list[list[float]], p: float) -> Tensor:
    """Written out; float64."""
    pooled = [(sum(value**p for value in channel) / len(channel)) ** (1 / p) for channel in image]
    return descriptor.projection.weight.detach().double() @ torch.tensor(pooled, dtype=torch.double)


def test_vectors_at_each_exponent_are_those_of_the_formula(descriptor: Descriptor) -> None:
    found = embed_at_exponents(descriptor, DATASET, [1.0, 4.5, 10.0])
    assert list(found) == [1.0, 4.5, 10.0]
    for p, vectors in found.items():
        raw = torch.stack([raw_embedding(descriptor, image, p) for image in maps(descriptor)])
        expected = raw / raw.norm(dim=1, keepdim=True)
        torch.testing.assert_close(torch.from_numpy(vectors).double(), expected, rtol=1e-4, atol=1e-4)
    assert float(descriptor.pooling.exponent.detach()) == 3 and descriptor.pooling.exponent.requires_grad


def test_domains_and_whitening_have_vectors_at_each_exponent_too() -> None:
    for changed in ({"domains": "split"}, {"whiten": True}):
        settings = DescriptorSettings.model_validate({"backbone": "test_efficientnet", "dimensions": 16} | changed)
        descriptor = Descriptor(settings).eval()
        found = embed_at_exponents(descriptor, DATASET, [2.0, 3.0])
        pixels = normalize_pixels(torch.stack(IMAGES), descriptor.mean, descriptor.std)
        torch.testing.assert_close(torch.from_numpy(found[3.0]), descriptor(pixels).detach(), rtol=1e-4, atol=1e-5)
        assert np.abs(found[2.0] - found[3.0]).max() > 1e-4


def test_sgd_is_the_formula_written_out(descriptor: Descriptor, classifier: tuple[Tensor, Tensor]) -> None:
    settings, seed = LearningSettings(learning_rate=0.4), 5
    images, order = maps(descriptor), np.random.default_rng(seed).permutation(10).tolist()

    def loss_at(p: float, rows: list[int]) -> float:
        total = 0.0
        for row in rows:
            logits = (classifier[0].double() @ raw_embedding(descriptor, images[row], p) + classifier[1].double()).tolist()
            total += math.log(sum(math.exp(logit) for logit in logits)) - logits[LABELS[row]]
        return total / len(rows)

    p, velocity, losses = 3.0, 0.0, []
    for step, rows in enumerate((order[:4], order[4:8], order[8:])):
        gradient = (loss_at(p + 1e-4, rows) - loss_at(p - 1e-4, rows)) / 2e-4
        losses.append((loss_at(3.0, rows), loss_at(p, rows)))
        velocity = 0.9 * velocity + gradient
        p -= 0.4 * (1 - step / 3) ** 0.9 * velocity
    learnt = learn_exponent(descriptor, classifier, DATASET, LABELS, settings, seed)
    assert abs(p - 3) > 1e-3
    assert learnt.value - 3 == pytest.approx(p - 3, rel=1e-2)
    before, after = np.mean(losses[1:], axis=0)
    assert (learnt.loss_before, learnt.loss) == pytest.approx((before, after), rel=1e-5)


def test_sgd_moves_p_alone_and_too_large_a_rate_is_told(descriptor: Descriptor, classifier: tuple[Tensor, Tensor]) -> None:
    descriptor.pooling.exponent.requires_grad_(False)
    before = {name: value.clone() for name, value in descriptor.state_dict().items()}
    steep = LearningSettings(learning_rate=0.5)
    learnt = learn_exponent(descriptor, classifier, DATASET, LABELS, steep)
    assert learnt.value != 3 and learnt == learn_exponent(descriptor, classifier, DATASET, LABELS, steep)
    assert all(torch.equal(value, before[name]) for name, value in descriptor.state_dict().items())
    assert all(parameter.grad is None for parameter in descriptor.parameters())
    assert not descriptor.pooling.exponent.requires_grad
    with pytest.raises(UserError, match="is too large"):
        for sign in (1, -1):  # of the two directions one is down
            signed = (sign * 1e4 * classifier[0], classifier[1])
            learn_exponent(descriptor, signed, DATASET, LABELS, LearningSettings(learning_rate=1e6))
