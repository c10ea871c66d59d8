"""Figures of a training on a folder that nothing is chosen by."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.procedural import write_pictures
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.pipeline.steps import validate
from image_copies.pipeline.steps.validate import watch_folder

SETTINGS = EmbeddingSettings(workers=0)


def untrained() -> Descriptor:
    torch.manual_seed(0)
    return Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8))


def test_class_folders_give_top_1_cross_entropy_and_recall(tmp_path: Path) -> None:
    """A classifier that always says class 1, of two classes with three and one images."""
    for name, count in (("a", 3), ("b", 1)):
        list(write_pictures(tmp_path / name, name, count, seed=0, workers=1))
    classifier = nn.Linear(8, 2)
    nn.init.zeros_(classifier.weight)
    classifier.bias.data = torch.tensor([0.0, 3.0])
    measure = watch_folder(tmp_path, SETTINGS)
    figures = measure(untrained(), 32, classifier)
    wrong, right = torch.tensor([3.0, 0.0]).exp().sum().log() - torch.tensor([0.0, 3.0])
    assert figures["watched_top1"] == 0.25
    assert figures["watched_loss"] == pytest.approx(float((3 * wrong + right) / 4), abs=1e-5)
    assert 0 <= figures["watched_recall"] <= 0.75  # the one image of b has no other to be found
    assert set(measure(untrained(), 32, None)) == {"watched_recall"}
    with pytest.raises(UserError, match="has 2 classes, the classifier 5"):
        measure(untrained(), 32, nn.Linear(8, 5))


def test_queries_with_a_ground_truth_give_their_uap(tmp_path: Path) -> None:
    """Three references, one of which is a query; the other query copies nothing."""
    list(write_pictures(tmp_path / "reference_images", "R", 3, seed=0, workers=1))
    list(write_pictures(tmp_path / "query_images", "Q", 2, seed=7, workers=1))
    (copy, other), (_, original, _) = (sorted((tmp_path / f"{part}_images").iterdir()) for part in ("query", "reference"))
    shutil.copyfile(original, copy)
    rows = f"query_id,reference_id\n{copy.stem},{original.stem}\n{other.stem},\n"
    (tmp_path / "public_ground_truth.csv").write_text(rows)
    assert watch_folder(tmp_path, SETTINGS)(untrained(), 32, None) == {"watched_uap": 1.0}


@pytest.mark.parametrize(("copies", "chosen"), [("", "aei"), ("dl", "dla"), ("abcdefghijkl", "abcdefghijkl")])
def test_of_many_images_some_are_watched_those_of_pairs_first(monkeypatch: pytest.MonkeyPatch, copies: str, chosen: str) -> None:
    monkeypatch.setattr(validate, "MOST_WATCHED", 3)
    images = ImageSet(list("abcdefghijkl"), [Path(name) for name in "abcdefghijkl"])
    assert validate.choose_watched(images, set(copies)).ids == list(chosen)


def test_another_folder_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        watch_folder(tmp_path, SETTINGS)
