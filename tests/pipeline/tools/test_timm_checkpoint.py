"""timm's networks by their names, with weights of a local file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch.nn import functional

from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.pipeline.tools.export import write_timm
from image_copies.submissions.vectors.files import read_vectors


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


def test_a_folder_is_embedded_with_it(tmp_path: Path, run_command: Callable[..., object]) -> None:
    list(write_pictures(tmp_path / "pictures", "P", 3, seed=1, workers=1))
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


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    torch.save(timm.create_model("test_vit").state_dict(), tmp_path / "weights.pth")
    with pytest.raises(UserError, match="matches only 0 of the backbone's"):
        write_timm(f"timm:test_efficientnet={tmp_path / 'weights.pth'}", tmp_path / "network.safetensors")
