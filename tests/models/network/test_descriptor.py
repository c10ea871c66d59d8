import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor, GeM, check_image_sizes
from image_copies.models.network.settings import DescriptorSettings

SETTINGS = DescriptorSettings(backbone="test_efficientnet", dimensions=32)


def test_gem_is_the_generalised_mean() -> None:
    features = torch.rand(2, 3, 4, 5) - 0.2
    for exponent in (1.0, 3.0, 4.5):
        expected = torch.empty(2, 3)
        for image in range(2):
            for channel in range(3):
                values = [max(float(value), 1e-6) ** exponent for value in features[image, channel].flatten()]
                expected[image, channel] = (sum(values) / len(values)) ** (1 / exponent)
        torch.testing.assert_close(GeM(exponent)(features), expected)


def test_gem_is_finite_at_large_exponents_in_dead_and_loud_channels() -> None:
    features = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    scaled = features * torch.tensor([0.0, 1e-3, 6e4])[:, None, None]
    pooling = GeM(10.0)
    pooled = pooling(scaled)
    expected = scaled.double().clamp(min=1e-6).pow(10).mean(dim=(2, 3)).pow(0.1)
    torch.testing.assert_close(pooled.double(), expected, rtol=1e-5, atol=0)
    pooled.log().sum().backward()
    exact = torch.tensor(10.0, dtype=torch.double, requires_grad=True)
    scaled.detach().double().clamp(min=1e-6).pow(exact).mean(dim=(2, 3)).pow(1 / exact).log().sum().backward()
    assert features.grad is not None and features.grad.isfinite().all() and exact.grad is not None
    torch.testing.assert_close(pooling.exponent.grad, exact.grad.float(), rtol=1e-4, atol=1e-6)


def test_an_exponent_is_replaced_for_a_while_or_for_good() -> None:
    pooling, maps = GeM(3.0), torch.rand(2, 4, 3, 3)
    before = pooling(maps).detach()
    pooling.exponent.grad = torch.tensor(0.5)
    with pytest.raises(KeyError), pooling.set_exponent_temporarily(7.0):
        assert not torch.equal(pooling(maps), before)
        pooling.exponent.requires_grad_(False)
        pooling.exponent.grad = None
        raise KeyError
    assert torch.equal(pooling(maps), before)
    assert pooling.exponent.requires_grad and pooling.exponent.grad == 0.5
    pooling = GeM(3.0)
    pooling.set_exponent(1.0)
    pooling.set_exponent(None)
    maps = torch.rand(2, 4, 3, 3)
    torch.testing.assert_close(pooling(maps), maps.mean(dim=(2, 3)))


def test_unit_vectors_and_trainable_exponent() -> None:
    descriptor = Descriptor(SETTINGS)
    vectors = descriptor(torch.randn(3, 3, 64, 64))
    assert vectors.shape == (3, 32)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    vectors.sum().backward()
    assert descriptor.pooling.exponent.grad is not None
    assert descriptor.projection.bias is None


def test_a_model_of_one_rotation_sees_images_so_turned() -> None:
    turned = SETTINGS.model_copy(update={"quarter_turns": 3})
    images, descriptor, other = torch.randn(2, 3, 64, 48), Descriptor(SETTINGS).eval(), Descriptor(turned).eval()
    other.load_state_dict(descriptor.state_dict())
    torch.testing.assert_close(other(images), descriptor(images.flip(2).mT))
    assert not torch.allclose(other(images), descriptor(images), atol=1e-3)
    with pytest.raises(ValueError, match="leave quarter_turns out"):
        DescriptorSettings(backbone="test_efficientnet", domains="split", quarter_turns=1)


def test_a_checkpoint_goes_there_and_back_and_other_files_are_refused(tmp_path: Path) -> None:
    descriptor = Descriptor(SETTINGS).eval()
    save_descriptor(tmp_path / "c.safetensors", descriptor, 64, {"loss": 1.5})
    loaded = load_descriptor(tmp_path / "c.safetensors")
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(loaded.descriptor.eval()(images), descriptor(images))
    assert (loaded.image_size, loaded.notes) == (64, {"loss": 1.5})
    with pytest.raises(UserError, match="no such checkpoint"):
        load_descriptor(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"garbage")
    with pytest.raises(UserError, match="not a safetensors file"):
        load_descriptor(tmp_path / "bad.safetensors")
    descriptor = Descriptor(SETTINGS)
    with torch.no_grad():
        descriptor.projection.weight[0, 0] = float("nan")
    save_descriptor(tmp_path / "c.safetensors", descriptor, 64, {})
    with pytest.raises(UserError, match=r"c\.safetensors contains NaN or infinite weights \(projection\.weight\)"):
        load_descriptor(tmp_path / "c.safetensors")


WHOLE: dict[str, Any] = {"descriptor": SETTINGS.model_dump(mode="json"), "image_size": 64, "notes": {}}


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"image_size": %s}' % ("9" * 5000), "not JSON"),
        ("[]", "valid dictionary"),
        ("{}", "descriptor: Field required"),
        (json.dumps({**WHOLE, "descriptor": {}}), r"descriptor\.backbone: Field required"),
        (json.dumps({key: value for key, value in WHOLE.items() if key != "image_size"}), "image_size: Field required"),
        (json.dumps({**WHOLE, "image_size": -5}), "image_size: Input should be greater"),
        (json.dumps({**WHOLE, "image_size": 10**9}), "image_size: Input should be less"),
        (json.dumps({**WHOLE, "descriptor": {**WHOLE["descriptor"], "dimensions": 10**12}}), r"descriptor\.dimensions: .* less"),
    ],
)
def test_a_description_that_makes_no_sense_is_named(tmp_path: Path, description: str, problem: str) -> None:
    path = tmp_path / "c.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata={"description": description})
    with pytest.raises(UserError, match=rf"c\.safetensors has an invalid description: .*{problem}"):
        load_descriptor(path)


@pytest.mark.parametrize("content", [[torch.zeros(2)], {"state_dict": {"epoch": 3}}])
def test_weights_that_are_more_than_tensors_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, "weights.pth")
    with pytest.raises(UserError, match=r"weights\.pth (is refused|contains no state_dict)"):
        Descriptor(DescriptorSettings(backbone="test_efficientnet", weights="weights.pth"))


def test_arguments_of_timm_and_pixel_statistics_come_from_the_settings_and_others_are_named(tmp_path: Path) -> None:
    plain = Descriptor(SETTINGS)
    settings = SETTINGS.model_copy(update={"model_args": {"output_stride": 16}, "mean": (0.5,) * 3, "std": (0.25,) * 3})
    changed = Descriptor(settings)
    pixels = torch.zeros(1, 3, 64, 64)
    assert plain.features(pixels).shape[2:] == (2, 2) and changed.features(pixels).shape[2:] == (4, 4)
    assert (changed.mean, changed.std) == ((0.5,) * 3, (0.25,) * 3) != (plain.mean, plain.std)
    save_descriptor(tmp_path / "c.safetensors", changed, 64, {})
    loaded = load_descriptor(tmp_path / "c.safetensors").descriptor
    assert loaded.settings == settings and loaded.mean == (0.5,) * 3
    with pytest.raises(UserError, match=r"cannot build the backbone 'test_efficientnet' with model_args {'colour': 'red'}"):
        Descriptor(SETTINGS.model_copy(update={"model_args": {"colour": "red"}}))
    with pytest.raises(UserError, match=r"model_args features_only makes .*leave it out"):
        Descriptor(SETTINGS.model_copy(update={"model_args": {"features_only": True}}))
    with pytest.raises(UserError, match=r"no backbone 'test_eficientnet'. Did you mean test_efficientnet"):
        Descriptor(DescriptorSettings(backbone="test_eficientnet"))


def test_local_weights_are_taken_and_pretrained_ones_need_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Descriptor(SETTINGS)
    torch.save(source.backbone.state_dict(), tmp_path / "w.pth")
    settings = SETTINGS.model_copy(update={"weights": str(tmp_path / "w.pth")})
    loaded = Descriptor(settings)
    assert torch.equal(loaded.backbone.conv_stem.weight, source.backbone.conv_stem.weight)
    with pytest.raises(UserError, match="no such weights file"):
        Descriptor(SETTINGS.model_copy(update={"weights": str(tmp_path / "none.pth")}))
    other = settings.model_copy(update={"backbone": "test_nfnet"})
    with pytest.raises(UserError, match="matches only 0 of the"):
        Descriptor(other)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="name the local file"):
        Descriptor(SETTINGS.model_copy(update={"weights": "pretrained"}))


def test_backbones_without_maps_are_told_before_training() -> None:
    check_image_sizes(Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)), [32, 48])
    check_image_sizes(Descriptor(DescriptorSettings(backbone="test_vit", dimensions=16)), [32, 45])  # tokens, at any size
    for backbone in ("swin_tiny_patch4_window7_224",):
        descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=16))
        for size in (32, 160, 224):
            with pytest.raises(UserError, match=f"{backbone}.*at image_size {size}.*Choose a convolutional backbone"):
                check_image_sizes(descriptor, [size])
