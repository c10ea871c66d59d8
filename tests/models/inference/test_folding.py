"""Networks whose batch normalisations are folded give the same vectors."""

import pytest
import torch
from torch import nn

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.models.inference import torch_embedder
from image_copies.models.inference.embedders import SAME_VECTORS
from image_copies.models.inference.folding import draw_pictures, fold_batch_norms, merge_pools
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.base import ImageDescriptor
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.shipped import SHIPPED
from tests.networks import make_small


def count_norms(descriptor: ImageDescriptor) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in descriptor.modules())


def draw_statistics(descriptor: ImageDescriptor) -> None:
    for module in descriptor.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.8, 1.2)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, std=0.1)


@pytest.mark.parametrize(
    ("backbone", "left"),
    [
        ("test_efficientnet", 0),
        ("resnet18", 0),
        ("tf_efficientnetv2_b0", 0),
        ("regnetx_002", 0),
        ("test_vit", 0),
        ("densenet121", 62),
    ],
)
@torch.no_grad()
def test_vectors_stay_the_same(backbone: str, left: int) -> None:
    """Of densenet's normalisations, 62 of 121 come before convolutions."""
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=16))
    draw_statistics(descriptor)
    size = 160 if backbone == "test_vit" else 64
    state, pictures = {name: value.clone() for name, value in descriptor.state_dict().items()}, draw_pictures(size, 5)
    folded = fold_batch_norms(descriptor, size)
    assert count_norms(folded) == left and descriptor.training
    assert all(torch.equal(value, state[name]) for name, value in descriptor.state_dict().items())
    pixels = normalize_pixels(pictures, descriptor.mean, descriptor.std)
    assert (folded(pixels) - descriptor.eval()(pixels)).abs().max() <= SAME_VECTORS


@torch.no_grad()
def test_the_descriptor_that_ships_is_folded_whole() -> None:
    loaded = load_descriptor(SHIPPED)
    assert count_norms(loaded.descriptor) > 10 and not count_norms(fold_batch_norms(loaded.descriptor, loaded.image_size))


@torch.no_grad()
def test_what_would_change_vectors_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = make_small()
    monkeypatch.setattr("image_copies.models.inference.folding.SAME_VECTORS", 0.0)
    draw_statistics(descriptor)
    assert count_norms(fold_batch_norms(descriptor, 32)) == count_norms(descriptor)


@pytest.mark.parametrize(("backbone", "side", "left"), [("resnet18d", 64, 0), ("resnet18d", 20, 3), ("densenet121", 64, 3)])
@torch.no_grad()
def test_pools_are_merged_where_vectors_stay_the_same(backbone: str, side: int, left: int) -> None:
    """Densenet's maps take what a pool gives besides the convolution after it; of 20 pixels a map has an odd number of rows."""
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=16)).eval()
    merged = merge_pools(descriptor, side)
    assert sum(type(module) is nn.AvgPool2d for module in merged.modules()) == left
    pixels = normalize_pixels(draw_pictures(side, 5), descriptor.mean, descriptor.std)
    assert (merged(pixels) - descriptor(pixels)).abs().max() <= SAME_VECTORS


def test_a_gpu_rounds_no_more_than_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch_embedder, "best_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch_embedder, "prepare_network", lambda *_: None)
    assert torch_embedder.load_embedder(SHIPPED, EmbeddingSettings()).launch is not None
    assert not torch.backends.cudnn.allow_tf32
