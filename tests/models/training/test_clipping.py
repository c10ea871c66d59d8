"""Clipping, and what a step takes of a GPU's memory at a time."""

from pathlib import Path

import pytest
import torch

from image_copies.data.images import find_images
from image_copies.data.procedural import write_pictures
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.objectives import arcface
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer


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
        path = Trainer(settings, images, images, tmp_path / str(clip_norm), tmp_path / "cache", seed=0).train()
        return load_descriptor(path).descriptor.state_dict()

    free, wide, narrow = train(None), train(1e9), train(0.1)
    assert all(torch.equal(free[name], wide[name]) for name in free)
    assert not all(torch.equal(free[name], narrow[name]) for name in free)
