"""Published descriptors in their own layouts, on files that are made here."""

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import get_model, resnet18

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.published import name_resnet
from image_copies.models.network.settings import DescriptorSettings

IMAGES = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def stir(network: nn.Module) -> None:
    """Give batch normalisations statistics and weights of their own, so that none can be left out unseen."""
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for name, value in module.state_dict().items():
                if name != "num_batches_tracked":
                    value.copy_(torch.rand(value.shape, generator=generator) + 0.5)


def gem(maps: Tensor, exponent: float) -> Tensor:
    return maps.clamp(min=1e-6).pow(exponent).mean(dim=(2, 3)).pow(1 / exponent)


@torch.no_grad()
def test_sscd_gives_the_vectors_of_its_own_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = resnet18(num_classes=24).eval()
    stir(network)
    network.fc.bias.copy_(torch.randn(24))
    path = tmp_path / "sscd_disc.torchvision.pt"
    torch.save({f"backbone.{name}": value for name, value in network.state_dict().items()}, path)
    maps = nn.Sequential(*list(network.children())[:-2])(IMAGES)
    expected = functional.normalize(network.fc(gem(maps, 3.0)))
    loaded = load_descriptor(path)
    torch.testing.assert_close(loaded.descriptor.eval()(IMAGES), expected, rtol=1e-4, atol=1e-5)
    assert loaded.image_size == 320 and loaded.descriptor.mean == (0.485, 0.456, 0.406)
    save_descriptor(tmp_path / "own.safetensors", loaded.descriptor, 64, loaded.notes)
    again = load_descriptor(tmp_path / "own.safetensors")
    assert torch.equal(again.descriptor.eval()(IMAGES), loaded.descriptor(IMAGES)) and again.notes == {"published": "SSCD"}


def test_a_torchvision_resnet_is_named_by_its_shapes() -> None:
    for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"):
        with torch.device("meta"):
            state = {f"backbone.{key}": value for key, value in get_model(name).state_dict().items()}
        assert name_resnet(state) == name


def test_other_files_are_named_with_what_is_known(tmp_path: Path) -> None:
    torch.save({"layer.weight": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(UserError, match=r"other\.pt holds weights in another layout than SSCD's"):
        load_descriptor(tmp_path / "other.pt")
    torch.save({"arch": "resnet18", "state_dict": {"x": Path("a")}}, tmp_path / "objects.pth.tar")
    with pytest.raises(UserError, match=r"objects\.pth\.tar is refused"):
        load_descriptor(tmp_path / "objects.pth.tar")


@torch.no_grad()
@pytest.mark.parametrize("size", [64, 72])  # 72 is no multiple of its patches: padded
def test_a_vit_gives_its_class_token_beside_gem_of_its_patches(tmp_path: Path, size: int) -> None:
    torch.manual_seed(0)
    descriptor = Descriptor(DescriptorSettings(backbone="test_vit", dimensions=None)).eval()
    images = torch.randn(2, 3, size, size)
    tokens = descriptor.backbone.forward_features(images)
    patches = tokens[:, 1:].clamp(min=1e-6).pow(3).mean(dim=1).pow(1 / 3)
    torch.testing.assert_close(descriptor(images), functional.normalize(torch.cat([tokens[:, 0], patches], dim=1)))
    assert descriptor.dimensions == 128
    save_descriptor(tmp_path / "vit.safetensors", descriptor, size, {})
    assert torch.equal(load_descriptor(tmp_path / "vit.safetensors").descriptor.eval()(images), descriptor(images))


@torch.no_grad()
def test_dinos_weights_are_a_start_at_any_size(tmp_path: Path) -> None:
    """DINO's own names are timm's; DINOv2's file has a mask token beside them. Position embeddings follow the size."""
    torch.manual_seed(0)
    source: Any = timm.create_model("test_vit", num_classes=0, global_pool="", img_size=80).eval()  # of 160 px by itself
    torch.save({"mask_token": torch.zeros(1, 64), **source.state_dict()}, tmp_path / "dino.pth")
    settings = DescriptorSettings(backbone="test_vit", weights=str(tmp_path / "dino.pth"), dimensions=16)
    descriptor = Descriptor(settings).eval()
    name = "blocks.1.mlp.fc1.weight"
    assert torch.equal(descriptor.backbone.get_parameter(name), source.get_parameter(name))
    images = torch.randn(2, 3, 80, 80)
    close = functional.cosine_similarity(descriptor.features(images).flatten(1), source.forward_features(images).flatten(1))
    assert close.min() > 0.95  # embeddings of positions were enlarged, and are shrunk again


@torch.no_grad()
def test_sscds_program_is_not_run_but_its_weights_are_read(tmp_path: Path) -> None:
    class Sscd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = resnet18(num_classes=24)

        def forward(self, images: Tensor) -> Tensor:
            maps = nn.Sequential(*list(self.backbone.children())[:-2])(images)
            vectors: Tensor = functional.normalize(self.backbone.fc(gem(maps, 3.0)))
            return vectors

    torch.manual_seed(0)
    network = Sscd().eval()
    stir(network)
    program = torch.jit.trace(network, IMAGES)
    program.save(tmp_path / "sscd_disc_mixup.torchscript.pt")
    with pytest.raises(UserError, match=r"is a TorchScript program, which is not run.*sscd_\*\.torchvision\.pt.*state_dict"):
        load_descriptor(tmp_path / "sscd_disc_mixup.torchscript.pt")
    torch.save(torch.jit.load(tmp_path / "sscd_disc_mixup.torchscript.pt").state_dict(), tmp_path / "weights.pt")
    found = load_descriptor(tmp_path / "weights.pt").descriptor.eval()
    torch.testing.assert_close(found(IMAGES), network(IMAGES), rtol=1e-3, atol=1e-5)
