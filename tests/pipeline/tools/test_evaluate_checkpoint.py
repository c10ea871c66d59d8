"""evaluate.py on folders that the test makes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from image_copies.data.procedural import write_pictures
from image_copies.data.readers import read_holidays
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings

Evaluate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    save_descriptor(folder / "c.safetensors", Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=16)), 32, {})
    save_file({"weight": torch.randn(3, 16), "bias": torch.zeros(3)}, folder / "classifier.safetensors")
    return folder / "c.safetensors"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 12, seed=0, workers=1))
    return sorted(folder.iterdir())


@pytest.fixture
def evaluate(checkpoint: Path, run_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> Evaluate:
    """evaluate(*arguments): the command with the checkpoint."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return run_command(tmp_path, "evaluate", "--checkpoint", checkpoint, *arguments)

    return run


def lay_by_class(pictures: list[Path], folder: Path, classes: str) -> None:
    """Copy each picture into the folder of a class, in turn."""
    for number, path in enumerate(pictures):
        target = folder / classes[number % len(classes)] / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())


def test_holidays_by_the_protocol_that_keeps_the_shape(evaluate: Evaluate, pictures: list[Path], tmp_path: Path) -> None:
    (tmp_path / "jpg").mkdir()
    for number, path in enumerate(pictures):
        (tmp_path / "jpg" / f"{100_000 + 100 * (number // 3) + number % 3}.jpg").write_bytes(path.read_bytes())
    assert len(read_holidays(tmp_path).queries) == 4
    done = evaluate("--set", "holidays", "--root", tmp_path, "--protocol", "long_side", "--image-size", 64)
    assert "mAP" in done.stdout and "64 px, long_side" in done.stdout, done.stderr


def test_class_folders_with_a_classifier(evaluate: Evaluate, pictures: list[Path], tmp_path: Path) -> None:
    lay_by_class(pictures, tmp_path, "abc")
    shown = ("--protocol", "center_crop", "--pooling-exponent", 5)
    done = evaluate("--set", "class_folders", "--root", tmp_path, *shown)
    for figure in ("Recall@1", "NMI", "s: upper bound", "top-1", "top-5", "p 5.00"):
        assert figure in done.stdout, done.stdout + done.stderr


def test_online_products_are_scored_at_the_papers_ranks(evaluate: Evaluate, pictures: list[Path], tmp_path: Path) -> None:
    """Recall@1, 10, 100 and 1000 (IDEAL, table 3), where CUB and Cars have 1, 2, 4 and 8; at the size of training the centre."""
    (tmp_path / "toaster_final").mkdir()
    rows = ["image_id class_id super_class_id path"]
    for number, path in enumerate(pictures):
        (tmp_path / "toaster_final" / path.name).write_bytes(path.read_bytes())
        rows.append(f"{number + 1} {number // 2 + 1} 1 toaster_final/{path.name}")
    for table in ("Ebay_train.txt", "Ebay_test.txt"):
        (tmp_path / table).write_text("\n".join(rows))
    done = evaluate("--set", "online_products", "--root", tmp_path)
    found = [word for word in done.stdout.split() if word.startswith("Recall@")]
    assert found == ["Recall@1", "Recall@10", "Recall@100", "Recall@1000"] and "32 px, center_crop" in done.stdout, done.stderr


def test_what_is_left_out_is_told(evaluate: Evaluate, pictures: list[Path], tmp_path: Path) -> None:
    """Above the size of training the whole image is shown."""
    lay_by_class(pictures[:8], tmp_path, "ab")
    (tmp_path / "a" / pictures[0].name).write_bytes(b"broken")
    done = evaluate("--set", "class_folders", "--root", tmp_path, "--image-size", 48)
    assert "48 px, long_side" in done.stdout, done.stderr
    assert "1 of 8 images are unreadable and match nothing, the first is" in done.stdout, done.stderr
    assert "no top-1: the classifier has 3 classes" in done.stdout and pictures[0].name in done.stdout


def test_wrong_input_is_told(evaluate: Evaluate, tmp_path: Path) -> None:
    done = evaluate("--set", "holidays", "--root", tmp_path)
    assert done.returncode == 2 and "jpg/" in done.stderr and "Traceback" not in done.stderr
    done = evaluate("--set", "ukb", "--root", tmp_path, "--distractors", tmp_path)
    assert done.returncode == 2 and "only be used with --set copydays" in done.stderr
    done = evaluate("--set", "ukb", "--root", tmp_path, "--pooling-exponent", "nan")
    assert done.returncode == 2 and "--pooling-exponent: nan: give a number above 0" in done.stderr
