"""Objectives, sampling, domains and whitening through the trainer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.classifier import has_classifier, load_classifier
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.studies.multigrain.whitening import compute_folded_logits
from tests import trainings
from tests.pictures import write_images

STAGES = [{"classes": 4, "image_size": 32, "batch_size": 8, "epochs": 2}, {"image_size": 32, "batch_size": 8, "epochs": 1}]
DESCRIPTOR = {"backbone": "test_efficientnet", "dimensions": 16}
PK = {"kind": "pk", "per_class": 2}
TRIPLET = {"objective": {"kind": "triplet"}, "sampling": PK}


def train(images: ImageSet, folder: Path, **changed: Any) -> list[dict[str, str]]:
    """Six classes of four images each."""
    settings = trainings.make_settings(**{"stages": STAGES} | changed)
    classes, overlays = images.select(images.ids[:24]), images.select(images.ids[24:])
    trainings.train(settings, classes, folder, overlays, labels=np.arange(24) % 6)
    return read_rows(folder / "model")


@pytest.mark.parametrize("kind", ["contrastive", "triplet", "multi_similarity", "npair", "angular", "margin"])
def test_pair_objectives_learn_with_svmax_and_domains(images: ImageSet, tmp_path: Path, kind: str) -> None:
    descriptor = DESCRIPTOR | {"domains": "split"}
    rows = train(images, tmp_path, objective={"kind": kind}, sampling=PK, svmax={"weight": 0.1}, descriptor=descriptor)
    assert [row["classes"] for row in rows] == ["4", "4", "6"]
    lower, s, upper = (float(rows[-1][name]) for name in ("singular_lower", "mean_singular_value", "singular_upper"))
    assert lower < s < upper == pytest.approx((8 / 4) ** 0.5)  # heads of 4 dimensions, batches of 8


def test_multigrain_learns_whitens_and_folds_its_classifier(images: ImageSet, tmp_path: Path) -> None:
    descriptor = {"backbone": "test_efficientnet", "dimensions": 8, "whiten": True, "train_pooling_exponent": False}
    repeated = {"kind": "repeated", "copies": 3}
    rows = train(images, tmp_path, objective={"kind": "multigrain"}, sampling=repeated, descriptor=descriptor)
    assert {"beta", "margin_loss", "cross_entropy"} <= rows[0].keys()
    path = tmp_path / "model" / "stage-2.safetensors"
    trained = require_trained_network(load_descriptor(path), path).eval()
    weight, bias = load_classifier(tmp_path / "model" / "stage-2.safetensors")
    embeddings = trained(torch.randn(5, 3, 32, 32), raw=True).detach()
    assert weight.shape == (6, 8)
    torch.testing.assert_close(
        compute_folded_logits(trained, embeddings, weight, bias), embeddings @ weight.T + bias, rtol=1e-4, atol=1e-4
    )


def test_the_last_validation_is_of_the_whitened_vectors(images: ImageSet, tmp_path: Path) -> None:
    settings = trainings.make_settings(descriptor=DESCRIPTOR | {"whiten": True}, objective={"kind": "softmax"}, stages=STAGES[1:])

    def spread(descriptor: Descriptor, size: int) -> tuple[float, None]:
        return float(descriptor.whitening_matrix.detach().abs().sum()), None

    trained = trainings.train(settings, images, tmp_path, validate=spread)
    found = load_descriptor(trained)
    expected, _ = spread(require_trained_network(found, trained), 32)
    assert found.notes["validation"] == pytest.approx(expected) and found.notes["validation"] > 17
    assert float(read_rows(tmp_path / "model")[-1]["validation"]) == pytest.approx(found.notes["validation"])


def whitened(images: ImageSet, folder: Path, embedding: dict[str, Any], other: Path | None = None) -> Descriptor:
    descriptor = DESCRIPTOR | {"whiten": True, "train_pooling_exponent": False}
    plain = {"descriptor": descriptor, "objective": {"kind": "softmax"}, "stages": STAGES[1:]}
    settings = trainings.make_settings(**plain, embedding=embedding, whitening_images=other)
    classes, overlays = images.select(images.ids[:24]), images.select(images.ids[20:])  # four images in both roles
    found = load_descriptor(trainings.train(settings, classes, folder, overlays)).descriptor
    assert isinstance(found, Descriptor)
    return found.eval()


@pytest.mark.parametrize("own_folder", [False, True])
def test_whitening_is_learnt_as_images_will_be_embedded(images: ImageSet, tmp_path: Path, own_folder: bool) -> None:
    """At s* and p* (64 px and 5 for a training at 32 px and 3), of each image once, or of a folder of other images."""
    others = tmp_path / "others"
    unlabelled = write_images(others, 20, "U", seed=5) if own_folder else images
    found = whitened(images, tmp_path, {"image_size": 64, "pooling_exponent": 5.0}, others if own_folder else None)

    def vectors(size: int, exponent: float) -> torch.Tensor:
        pixels = torch.stack([PreprocessedImages(unlabelled, size)[row][0] for row in range(len(unlabelled))])
        with torch.inference_mode(), found.use_exponent(exponent):
            return found(normalize_pixels(pixels, found.mean, found.std), raw=True).double()

    def is_white(raw: torch.Tensor) -> bool:
        white = (torch.nn.functional.normalize(raw) - found.whitening_mean) @ found.whitening_matrix.double().T
        return bool(white.mean(0).abs().max() < 0.01) and bool((white.var(0, correction=0) < 1.1).all())

    assert is_white(vectors(64, 5.0)) and not is_white(vectors(32, 3.0))


def test_the_whitening_of_a_finished_training_follows_how_images_are_embedded(images: ImageSet, tmp_path: Path) -> None:
    """It stayed that of the size and exponent of the training unless everything was trained again."""
    before = whitened(images, tmp_path, {"image_size": 32})
    after = whitened(images, tmp_path, {"image_size": 64, "pooling_exponent": 5.0})
    fresh = whitened(images, tmp_path / "fresh", {"image_size": 64, "pooling_exponent": 5.0})
    for name, weights in after.state_dict().items():
        torch.testing.assert_close(weights, fresh.state_dict()[name], rtol=0, atol=1e-5)
        same = torch.equal(weights, before.state_dict()[name])
        assert same != name.startswith("whitening_")


def test_without_a_share_of_the_loss_no_classifier_is_left_behind(images: ImageSet, tmp_path: Path) -> None:
    """It would be the random one that training began with."""
    train(images, tmp_path, objective={"kind": "multigrain", "weight": 0.0}, sampling={"kind": "repeated", "copies": 3})
    assert not has_classifier(tmp_path / "model" / "stage-2.safetensors")


def test_too_few_images_to_whiten_with_are_told_before_training(images: ImageSet, tmp_path: Path) -> None:
    """28 images: 4 classes of 4 in the last stage, and 4 overlays."""
    descriptor = DESCRIPTOR | {"dimensions": 20, "whiten": True}
    with pytest.raises(UserError, match=r"20 training images cannot whiten 20 dimensions.*Lower descriptor.dimensions"):
        train(images, tmp_path, objective={"kind": "softmax"}, descriptor=descriptor, stages=STAGES[:1])
    assert not (tmp_path / "cache").exists()


def test_one_image_a_class_is_edited_again_to_make_its_pairs(images: ImageSet, tmp_path: Path) -> None:
    trainings.train(trainings.make_settings(**TRIPLET), images.select(images.ids[:8]), tmp_path)
    assert float(read_rows(tmp_path / "model")[0]["loss"]) > 0


def test_each_head_learns_from_its_own_domain_alone() -> None:
    descriptor = Descriptor(DescriptorSettings.model_validate(DESCRIPTOR | {"domains": "split"}))
    parts = descriptor(torch.randn(3, 3, 32, 32), raw=True)
    assert parts.shape == (4, 3, 4)
    for domain in range(4):
        (gradient,) = torch.autograd.grad(parts[domain].sum(), descriptor.projection.weight, retain_graph=True)
        touched = gradient.reshape(4, 4, -1).abs().sum(dim=(1, 2)) > 0
        assert touched.tolist() == [number == domain for number in range(4)]


def test_an_image_that_is_no_square_has_its_four_rotations_too() -> None:
    """As evaluate.py's long_side shows it: each domain is what one turned image alone gives."""
    descriptor = Descriptor(DescriptorSettings.model_validate(DESCRIPTOR | {"domains": "shared"})).eval()
    image = torch.randn(2, 3, 40, 64)
    vector = descriptor(image).reshape(2, 4, 4)
    alone = Descriptor(DescriptorSettings.model_validate(DESCRIPTOR | {"dimensions": 4})).eval()
    alone.load_state_dict(descriptor.state_dict())
    for domain in range(4):
        expected = alone(torch.rot90(image, domain, dims=(2, 3))) / 2
        torch.testing.assert_close(vector[:, domain], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"objective": {"kind": "triplet"}}, "set sampling.kind to pk or repeated"),
        ({"objective": {"kind": "multigrain"}, "sampling": PK}, "set sampling.kind to repeated"),
        ({"objective": {"kind": "multigrain", "weight": 1.5}}, "less than or equal to 1"),
        ({"stages": [{"batch_size": 1}]}, "greater than or equal to 2"),
        ({"descriptor": DESCRIPTOR | {"domains": "split"}}, "domains are for objectives that compare pairs"),
        ({"descriptor": DESCRIPTOR | {"domains": "split", "dimensions": 18}}, "a multiple of 4"),
        ({"descriptor": DESCRIPTOR | {"domains": "split", "dimensions": 4}}, "at least 8; found 4"),
        ({"objective": {"kind": "margin"}, "sampling": {"kind": "pk", "per_class": 6}}, "two groups of 6 images"),
        ({"turn": True, "descriptor": DESCRIPTOR | {"domains": "split"}, **TRIPLET}, "turn would mix"),
        ({"sampling": {"copies": 2}}, "copies goes with kind repeated, not with kind epoch"),
        ({**TRIPLET, "sampling": {"kind": "repeated", "per_class": 2}}, "per_class goes with kind pk, not with kind repeated"),
        ({**TRIPLET, "sampling": {"kind": "pk", "per_class": 3}}, "batch_size 8 is no multiple of the 3 images"),
        ({"precision": "16", "optimizer": {"class_kind": "adafactor"}}, "needs precision 32 or bf16"),
        ({"optimizer": {"kind": "muon"}}, "set class_kind, such as adam"),
        ({**TRIPLET, "mix": {"kind": "mixup"}}, "mix goes with the objectives arcface, softmax"),
        ({"stages": [{"last_learning_rate_factor": 0.1}]}, "goes with scheduler kind constant, not with plateau"),
        ({"stages": [{"classes": 20}, {"classes": 10}]}, "must not have fewer classes"),
        ({"stages": [{"classes": 20}, {"classes": 30, "extra_classes": 15}]}, "of either kind"),
        ({"stages": [{"classes": 20, "extra_classes": 5}, {"classes": 30}]}, "of either kind"),
        ({"stages": [{"classes": 20, "extra_classes": 25}]}, "give no more of them"),
    ],
)
def test_combinations_that_make_no_sense(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelSettings.model_validate({"descriptor": DESCRIPTOR, "stages": STAGES} | changed)
