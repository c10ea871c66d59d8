"""Networks of others, wherever a checkpoint can be named: published files, timm's by name, classifiers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch.nn import functional
from torchvision.models import resnet18

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.run import assign_training_roles
from image_copies.pipeline.steps import embed
from image_copies.pipeline.steps.train import train
from image_copies.pipeline.tools.export import write_timm
from image_copies.submissions.vectors.files import read_vectors
from tests.pictures import write_images
from tests.runs import RunCommand, copy_run


def test_it_is_a_member_of_a_run(small_run: Path, tmp_path: Path) -> None:
    """Given as it is, a ResNet in SSCD's layout, it is kept as a checkpoint of ours."""
    published = tmp_path / "sscd.torchvision.pt"
    torch.save({f"backbone.{name}": value for name, value in resnet18(num_classes=24).state_dict().items()}, published)
    theirs = f"  theirs: {{kind: file, file: {published}}}\nembedding:"
    run = copy_run(small_run, tmp_path / "run", ("embedding:", theirs))
    train(run, "theirs", assign_training_roles(run))
    found, expected = (load_descriptor(path) for path in (run.checkpoint("theirs"), published))
    assert found.image_size == expected.image_size == 320
    weights = expected.descriptor.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in found.descriptor.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("name", ["test_efficientnet", "test_vit", "test_convnext", "test_resnet"])
def test_vectors_are_timms_own_pooled_features(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    network: Any = timm.create_model(name)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    write_timm(f"timm:{name}={tmp_path / 'weights.pth'}", tmp_path / "network.safetensors")
    (tmp_path / "weights.pth").unlink()
    loaded = load_descriptor(tmp_path / "network.safetensors")
    assert (
        loaded.image_size == network.pretrained_cfg["input_size"][-1] and loaded.descriptor.mean == network.pretrained_cfg["mean"]
    )
    images = torch.randn(2, 3, loaded.image_size, loaded.image_size)
    network.reset_classifier(0)
    expected = functional.normalize(network.eval()(images))
    torch.testing.assert_close(loaded.descriptor.eval()(images), expected, rtol=1e-4, atol=1e-5)


def test_a_folder_is_embedded_with_it(tmp_path: Path, run_command: RunCommand) -> None:
    write_images(tmp_path / "pictures", 3)
    torch.save(timm.create_model("test_efficientnet").state_dict(), tmp_path / "weights.pth")
    embed = ("02_embed", "--images", "pictures", "--workers", 0)
    run_command(tmp_path, *embed, "--output", "v.h5", "--checkpoint", "timm:test_efficientnet=weights.pth")
    run_command(tmp_path, *embed, "--output", "again.h5", "--checkpoint", "v.h5.network.safetensors")
    assert np.array_equal(read_vectors(tmp_path / "v.h5").vectors, read_vectors(tmp_path / "again.h5").vectors)


@pytest.mark.parametrize(
    ("name", "message"), [("timm:", "expected timm:NAME"), ("timm:resnet5", r"no backbone 'resnet5'\. Did you mean .*resnet50")]
)
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        write_timm(name, tmp_path / "network.safetensors")


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "weights.pth")
    with pytest.raises(UserError, match="matches only 0 of the backbone's"):
        write_timm(f"timm:test_efficientnet={tmp_path / 'weights.pth'}", tmp_path / "network.safetensors")


def test_a_folder_is_embedded_with_the_shipped_descriptor_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    used: list[Path] = []
    monkeypatch.setattr(embed, "embed_folder", lambda checkpoint, images, output, workers: used.append(checkpoint))
    other = tmp_path / "other.safetensors"
    for more in ((), ("--checkpoint", other)):
        assert run_command(tmp_path, "02_embed", "--images", tmp_path, "--output", tmp_path / "v.h5", *more).returncode == 0
    assert used == [SHIPPED, other]
