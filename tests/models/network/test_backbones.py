"""A backbone that is not timm's is a function and a line of a table: it trains, embeds and is kept like any other."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchvision.models import googlenet
from torchvision.transforms import functional

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.backbones import BACKBONES, IMAGENET_MEAN, IMAGENET_STD, build_backbone
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor, check_image_sizes
from image_copies.models.network.settings import DescriptorSettings
from tests import trainings
from tests.networks import build_edges


def test_a_backbone_of_the_table_is_trained_kept_and_embeds(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BACKBONES, "edges", build_edges)
    images = images.select(images.ids[:12])
    settings = trainings.make_settings(descriptor={"backbone": "edges", "dimensions": 8})
    checkpoint = load_descriptor(trainings.train(settings, images, tmp_path))
    assert isinstance(checkpoint.descriptor, Descriptor) and checkpoint.descriptor.projection.in_features == 6
    vectors = torch.from_numpy(
        next(iter(embed_images(checkpoint, images, EmbeddingSettings(workers=0, pooling_exponent=2.0)))).vectors
    )
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(12))
    assert (vectors @ vectors.T).fill_diagonal_(0).max() < 0.999


def test_a_backbone_brings_its_arguments_and_normalisation_and_vectors_are_not_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, "edges", build_edges)
    descriptor = Descriptor(DescriptorSettings(backbone="edges", model_args={"width": 5}, dimensions=None))
    assert descriptor.dimensions == 5 and (descriptor.mean, descriptor.std) == ((0.5,) * 3, (0.25,) * 3)
    check_image_sizes(descriptor, [16, 40])
    assert set(descriptor.state_dict()) == {"backbone.weight", "backbone.bias", "pooling.exponent"}


def test_googlenet_gives_torchvisions_last_map_from_a_file_of_its_weights(tmp_path: Path) -> None:
    whole = googlenet(weights=None, aux_logits=False, init_weights=False, transform_input=True).eval()
    torch.save(whole.state_dict(), tmp_path / "googlenet.pth")
    settings = DescriptorSettings(backbone="googlenet", weights=str(tmp_path / "googlenet.pth"), dimensions=None)
    descriptor = Descriptor(settings).eval()
    seen: list[Tensor] = []
    whole.inception5b.register_forward_hook(lambda module, images, maps: seen.append(maps))
    pixels = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        whole(functional.normalize(pixels, IMAGENET_MEAN, IMAGENET_STD))  # which it turns into what its weights learnt from
        maps = build_backbone("googlenet", {}, pretrained=False).compute(descriptor.backbone, (pixels - 0.5) / 0.5)
    torch.testing.assert_close(maps, seen[0], rtol=1e-4, atol=1e-5)
    assert descriptor.dimensions == maps.shape[1] == 1024 and (descriptor.mean, descriptor.std) == ((0.5,) * 3, (0.5,) * 3)
    with pytest.raises(UserError, match="googlenet takes no model_args"):
        build_backbone("googlenet", {"width": 2}, pretrained=False)
