"""import_classifier.py, and what its checkpoints are for: p* of a classifier that was trained with average pooling."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch

from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.off_the_shelf import build_off_the_shelf
from image_copies.models.training.classifier import load_classifier


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A whole classifier of three classes, in a file of its own."""
    torch.manual_seed(0)
    path = tmp_path / "whole.pth"
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), path)
    return path


def test_a_classifier_off_the_shelf_is_imported_and_evaluated_with_another_exponent(
    weights: Path, run_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = run_command(
        tmp_path, "import_classifier", "--model", "test_resnet", "--weights", weights, "--output", tmp_path / "found"
    )
    assert "3 classes, trained at 160 px" in done.stdout, done.stderr
    checkpoint = tmp_path / "found" / "stage-1.safetensors"
    whole, images = timm.create_model("test_resnet", num_classes=3).eval(), torch.randn(2, 3, 96, 96)
    whole.load_state_dict(torch.load(weights, weights_only=True))
    weight, bias = load_classifier(checkpoint)
    network = load_descriptor(checkpoint).descriptor.eval()
    with torch.no_grad():
        torch.testing.assert_close(network(images, raw=True) @ weight.T + bias, whole(images))

    list(write_pictures(tmp_path / "pictures", "T", 6, seed=0, workers=1))
    for number, path in enumerate(sorted((tmp_path / "pictures").iterdir())):
        folder = tmp_path / "classes" / "abc"[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)
    chosen = run_command(
        tmp_path, "choose_exponent", "--checkpoint", checkpoint, "--method", "sgd", "--data", tmp_path / "classes", "--workers", 0
    )
    assert "trained at 160 px with p 1.00" in chosen.stdout and "160 px: p* " in chosen.stdout, chosen.stderr
    shown = ("--set", "class_folders", "--root", tmp_path / "classes", "--image-size", 192, "--pooling-exponent", 1.6)
    assert "top-1" in run_command(tmp_path, "evaluate", "--checkpoint", checkpoint, *shown).stdout


def test_what_does_not_average_its_maps_is_refused(weights: Path) -> None:
    with pytest.raises(UserError, match="negative values"):
        build_off_the_shelf("test_efficientnet", "none")  # ends in SiLU
    with pytest.raises(UserError, match="does not hold the whole classifier"):
        build_off_the_shelf("resnet18", str(weights))
