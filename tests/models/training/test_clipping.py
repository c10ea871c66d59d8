"""Clipping, and the gradients of a few rows: as if they were whole."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from image_copies.data.images import find_images
from image_copies.data.procedural.sample import write_pictures
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.objectives import arcface
from image_copies.models.objectives.settings import ArcFaceSettings
from image_copies.models.training.clipping import clip_gradients, join_rows
from image_copies.models.training.curve import read_rows
from image_copies.models.training.learner import Learner
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import train_model

ROWS, WIDTH = 60, 8


@pytest.mark.parametrize("batches", [1, 2])
def test_rows_have_the_gradient_and_the_norm_of_the_whole_matrix(batches: int) -> None:
    matrices, others = list[nn.Parameter](), list[nn.Parameter]()
    for sparse in (True, False):
        torch.manual_seed(0)
        head, other = ArcFaceSettings(negatives=0.2).build(WIDTH, ROWS, 0), nn.Parameter(torch.ones(3))
        head.sparse_rows = sparse
        for _ in range(batches):
            (head(torch.randn(6, WIDTH), torch.arange(6)).loss + other.square().sum()).backward()
        join_rows(head.matrix, batches)
        assert head.matrix.grad is not None and head.matrix.grad.is_sparse == sparse
        assert not sparse or (head.matrix.grad.is_coalesced() and head.matrix.grad._nnz() <= batches * 18)
        clip_gradients([head.matrix, other], 0.5, head.matrix)
        matrices.append(head.matrix)
        others.append(other)
    assert matrices[0].grad is not None and matrices[1].grad is not None
    assert others[0].grad is not None and others[1].grad is not None
    torch.testing.assert_close(matrices[0].grad.to_dense(), matrices[1].grad)
    torch.testing.assert_close(others[0].grad, others[1].grad)
    norm = (matrices[0].grad.to_dense().square().sum() + others[0].grad.square().sum()).sqrt()
    torch.testing.assert_close(norm, torch.tensor(0.5))


def test_only_compared_rows_are_moved_and_a_killed_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 30, seed=0, workers=1))
    images = find_images(tmp_path / "pictures")
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
            "objective": {"kind": "arcface", "negatives": 0.1},
            "optimizer": {"class_kind": "sparse_adam", "accumulate": 2},
            "workers": 0,
            "stages": [{"image_size": 32, "batch_size": 3, "epochs": 2}],
        }
    )
    learn, steps, moved = Learner.learn, list[int](), list[int]()

    def watched(self: Learner, *arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt
        matrix = self.objective.class_matrix()
        assert matrix is not None
        before = matrix.parameter.detach().clone()
        result = learn(self, *arguments)
        moved.append(int((matrix.parameter.detach() != before).any(dim=1).sum()))
        return result

    def train(folder: str) -> None:
        train_model(settings, images, images, tmp_path / folder, tmp_path / "cache", seed=0)

    train("whole")
    monkeypatch.setattr(Learner, "learn", watched)
    for name, value in (("SAVE_INTERVAL_SECONDS", 0.0), ("MAX_SAVING_SHARE", 1e9), ("STEPS_PER_CHECK", 1)):
        monkeypatch.setattr(f"image_copies.models.training.stage.{name}", value)
    with pytest.raises(KeyboardInterrupt):
        train("killed")
    train("killed")
    assert len(moved) == 10 and max(moved) <= 2 * (3 + 3)  # in two batches, the own classes and a tenth
    curves = [[(row["loss"], row["step"]) for row in read_rows(tmp_path / folder)] for folder in ("whole", "killed")]
    assert curves[0] == curves[1] and len(curves[0]) == 2


def test_a_sparse_optimizer_needs_sampled_classes() -> None:
    recipe = {"descriptor": {"backbone": "test_efficientnet"}, "optimizer": {"class_kind": "sparse_adam"}, "stages": [{}]}
    with pytest.raises(ValueError, match=r"set objective\.negatives"):
        ModelSettings.model_validate(recipe)


def test_a_chunk_is_as_large_as_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the card's whole memory, whatever is free: a resumed training sums in the same order."""

    class Card:
        total_memory = 80 * 2**30

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Card)
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    chunk = arcface.choose_chunk(16_384, 64, 256, gpu)
    assert chunk == 524_288 and 4 * chunk * (3 * 64 + 2 * 256) <= Card.total_memory / 32
    assert arcface.choose_chunk(2_000_000, 64, 256, gpu) == 2_000_000
    assert arcface.choose_chunk(16_384, 64, 256, cpu) == 16_384
    Card.total_memory = 2**20
    assert arcface.choose_chunk(16_384, 64, 256, gpu) == 16_384


def test_without_a_limit_gradients_stay_as_they_are(tmp_path: Path) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 12, seed=0, workers=1))
    images = find_images(tmp_path / "pictures")

    def train(clip_norm: float | None) -> dict[str, torch.Tensor]:
        settings = ModelSettings.model_validate(
            {
                "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
                "optimizer": {"kind": "sgd", "learning_rate": 0.1, "clip_norm": clip_norm},
                "workers": 0,
                "stages": [{"image_size": 32, "batch_size": 12, "epochs": 1}],
            }
        )
        path = train_model(settings, images, images, tmp_path / str(clip_norm), tmp_path / "cache", seed=0)
        return load_descriptor(path).descriptor.state_dict()

    free, wide, narrow = train(None), train(1e9), train(0.1)
    assert all(torch.equal(free[name], wide[name]) for name in free)
    assert not all(torch.equal(free[name], narrow[name]) for name in free)
