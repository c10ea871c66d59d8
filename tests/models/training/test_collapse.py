"""What warns of a training: vectors that collapse, and a start that does not embed as it learns."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from image_copies.data.cache import cache_images
from image_copies.data.images import ImageSet
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.collapse import (
    COSINE,
    LEAST_AGREEMENT,
    RANK,
    effective_rank,
    embed_classes,
    find_collapse,
    mean_cosine,
    measure_agreement,
    measure_collapse,
)
from tests.networks import make_small


def unit(*shape: int) -> Tensor:
    return functional.normalize(torch.randn(*shape))


def around_one_direction(cosine: float, count: int, dimensions: int) -> Tensor:
    """Unit vectors [count, dimensions] of this cosine to each other, but for their random directions."""
    others = unit(count, dimensions - 1) * math.sqrt(1 - cosine)
    return torch.cat([torch.full((count, 1), math.sqrt(cosine)), others], dim=1)


def test_the_figures_are_those_of_their_definitions() -> None:
    vectors = unit(12, 7)
    pairs = [float(one @ other) for row, one in enumerate(vectors) for other in vectors[row + 1 :]]
    assert mean_cosine(vectors) == pytest.approx(np.mean(pairs), abs=1e-6)
    values = np.linalg.svd((vectors - vectors.mean(0)).numpy(), compute_uv=False)
    shares = values / values.sum()
    assert effective_rank(vectors) == pytest.approx(math.exp(-sum(share * math.log(share) for share in shares)), rel=1e-5)
    both = torch.cat([torch.eye(4), -torch.eye(4)])
    assert effective_rank(both) == pytest.approx(4) and mean_cosine(both) == pytest.approx(-1 / 7)


def test_a_mean_cosine_of_99_hundredths_is_warned_of() -> None:
    vectors = around_one_direction(0.99, 64, 256)
    figures = measure_collapse(vectors)
    assert figures[COSINE] == pytest.approx(0.99, abs=1e-3) and figures[RANK] > 50
    assert find_collapse(figures) == f"mean cosine of different images {figures[COSINE]:.3f}, above 0.95"


@pytest.mark.parametrize(("count", "dimensions"), [(64, 256), (24, 16), (128, 64)])
def test_vectors_in_two_dimensions_are_warned_of(count: int, dimensions: int) -> None:
    plane = functional.normalize(torch.randn(count, 2) @ torch.randn(2, dimensions))
    figures = measure_collapse(plane)
    assert figures[RANK] <= 2 and abs(figures[COSINE]) < 0.5
    assert find_collapse(figures).startswith("effective rank ")


@pytest.mark.parametrize(("count", "dimensions"), [(64, 256), (24, 16), (128, 64), (4, 256), (128, 4)])
def test_vectors_in_all_directions_are_not(count: int, dimensions: int) -> None:
    assert find_collapse(measure_collapse(unit(count, dimensions))) == ""


def test_equal_vectors_have_no_rank_and_two_vectors_no_figures() -> None:
    equal = unit(1, 32).expand(20, 32)
    assert effective_rank(equal) == 0 and "mean cosine of different images 1.000" in find_collapse(measure_collapse(equal))
    assert measure_collapse(unit(2, 8)) == {} and find_collapse({}) == ""


@pytest.mark.parametrize("backbone", ["test_efficientnet", "test_nfnet", "test_vit"])
def test_untrained_networks_are_not_warned_of(images: ImageSet, tmp_path: Path, backbone: str) -> None:
    cached = cache_images(images, 48, tmp_path / "cache", "pixels", 0)
    descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=64)).train()
    vectors = embed_classes(descriptor, cached, list(range(28)), list(range(28)), 32, batch_size=5)
    assert vectors.shape == (28, 64) and descriptor.training
    assert find_collapse(measure_collapse(vectors)) == ""


def test_one_image_of_each_class_is_embedded(images: ImageSet, tmp_path: Path) -> None:
    cached = cache_images(images.select(images.ids[:12]), 48, tmp_path / "cache", "pixels", 0)
    descriptor = make_small().eval()
    few = embed_classes(descriptor, cached, list(range(12)), [0] * 6 + [1] * 3 + [2] * 3, 32, 4)
    torch.testing.assert_close(few, embed_classes(descriptor, cached, list(range(12)), list(range(12)), 32, 4)[[0, 6, 9]])


def test_weights_with_their_statistics_agree_and_folded_ones_do_not() -> None:
    torch.manual_seed(0)
    descriptor, images = make_small().train(), torch.randn(32, 3, 32, 32)
    with torch.no_grad():
        for _ in range(60):
            descriptor(images)
    before = {name: value.clone() for name, value in descriptor.state_dict().items()}
    random = torch.get_rng_state()
    assert measure_agreement(descriptor, images) > 0.9
    assert all(torch.equal(before[name], value) for name, value in descriptor.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random) and descriptor.training
    for module in descriptor.modules():
        if isinstance(module, _BatchNorm):
            module.get_buffer("running_mean").fill_(5.0)  # far from what its maps hold
    assert measure_agreement(descriptor, images) < LEAST_AGREEMENT
    frozen = make_small(frozen_statistics=True)
    frozen.load_state_dict(descriptor.state_dict())
    assert measure_agreement(frozen, images) > 0.99


def test_domains_agree_as_well() -> None:
    torch.manual_seed(0)
    settings = DescriptorSettings(backbone="test_nfnet", dimensions=16, domains="split")  # without batch statistics
    assert measure_agreement(Descriptor(settings), torch.randn(4, 3, 32, 32)) > 0.99
