"""Every test of this room begins with the same random numbers, whatever ran before it; and trainings that are stopped."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from image_copies.data.images import ImageSet
from image_copies.models.training import state, trainer
from image_copies.models.training.trainer import Trainer
from tests.pictures import write_images


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    """28 drawn pictures. Tests only read them."""
    return write_images(tmp_path_factory.mktemp("images"), 28)


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[Trainer]]:
    """Have trainings save their state after every step, and one be interrupted before a step; returned is the trainer of each."""

    def arrange(step: int) -> list[Trainer]:
        for module, name, value in (
            (state, "SAVE_INTERVAL_SECONDS", 0.0),
            (state, "SAVING_PAUSE", 0.0),
            (trainer, "STEPS_PER_CHECK", 1),
        ):
            monkeypatch.setattr(module, name, value)
        make, trainers = Trainer.step, list[Trainer]()

        def stopping(self: Trainer, *arguments: Any) -> Any:
            trainers.append(self)
            if len(trainers) == step:
                raise KeyboardInterrupt
            return make(self, *arguments)

        monkeypatch.setattr(Trainer, "step", stopping)
        return trainers

    return arrange
