"""Trainings of a tiny network on few pictures."""

from pathlib import Path
from typing import Any

from image_copies.data.images import ImageSet
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer

SMALL = {"backbone": "test_efficientnet", "dimensions": 16}
STAGE = {"image_size": 32, "batch_size": 8, "epochs": 1}


def make_settings(**changes: Any) -> ModelSettings:
    """Return the settings of a training of one stage, with some keys changed."""
    return ModelSettings.model_validate({"descriptor": SMALL, "workers": 0, "stages": [STAGE]} | changes)


def train(settings: ModelSettings, images: ImageSet, folder: Path, overlays: ImageSet | None = None, **options: Any) -> Path:
    """Train in `folder`/model with a cache in `folder`/cache, and return the last checkpoint.

    The images are their own overlays unless others are given; `options` are those of `Trainer`.
    """
    options = {"seed": 0} | options
    return Trainer(settings, images, overlays or images, folder / "model", folder / "cache", **options).train()
