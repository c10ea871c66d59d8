from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.studies.multigrain.pooling_exponent import embed_at_exponents

IMAGES = [
    torch.randint(30 + 22 * number, (3, 64, 64), generator=torch.Generator().manual_seed(number), dtype=torch.uint8)
    for number in range(10)
]
DATASET = cast(Dataset[tuple[Tensor, bool]], [(image, True) for image in IMAGES])


@pytest.fixture
def descriptor() -> Descriptor:
    torch.manual_seed(0)
    return Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)).eval()


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
