"""A training whose memory runs out, and what a resumed one has in memory."""

from pathlib import Path

import pytest
import torch

from data.errors import UserError
from data.images import ImageSet, find_images
from data.procedural.sample import write_pictures
from models.settings import ModelSettings
from models.training import stage as stage_run
from models.training.learner import Learner
from models.training.trainer import train_model

STAGE = {"classes": 8, "image_size": 32, "batch_size": 8, "epochs": 2}
SETTINGS = ModelSettings.model_validate(
    {"descriptor": {"backbone": "test_efficientnet", "dimensions": 16}, "workers": 0, "stages": [STAGE]}
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    folder = tmp_path_factory.mktemp("pictures")
    list(write_pictures(folder, "T", 10, seed=0, workers=1))
    return find_images(folder)


def train(images: ImageSet, folder: Path, settings: ModelSettings = SETTINGS) -> None:
    classes, overlays = images.select(images.ids[:8]), images.select(images.ids[8:])
    train_model(settings, classes, overlays, folder / "model", folder / "cache", seed=0)


def test_lack_of_memory_names_the_stage_and_its_sizes(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(Learner, "learn", full)
    with pytest.raises(
        UserError, match=r"stage 1 trained \(batch_size 8, image_size 32, 8 images\).*2\.00 GiB.*Lower batch_size"
    ):
        train(images, tmp_path)
    assert "trains on the CPU (" in capsys.readouterr().out or torch.cuda.is_available()


def test_moments_keep_the_memory_format_of_their_weights(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed Adam must not step over channels_last weights with moments in another format; the moments stay the same."""
    monkeypatch.setattr(stage_run, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(stage_run, "SAVING_SHARE", 1e9)
    monkeypatch.setattr(stage_run, "CHECK_EVERY", 1)
    learn, restore, steps = Learner.learn, Learner.restore, []
    formats: list[tuple[object, object]] = []

    def killed(self: Learner, *arguments: object) -> object:
        steps.append(1)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return learn(self, *arguments)  # type: ignore[arg-type]

    def seen(self: Learner, state: dict[str, object]) -> None:
        restore(self, state)
        for number, (weight, moments) in enumerate(self.optimizers[0].state.items()):
            formats.append((weight.stride(), moments["exp_avg"].stride()))
            saved = state["optimizers"][0]["state"][number]["exp_avg"]  # type: ignore[index]
            assert torch.equal(moments["exp_avg"], saved)

    monkeypatch.setattr(Learner, "learn", killed)
    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path)
    monkeypatch.setattr(Learner, "restore", seen)
    train(images, tmp_path)
    assert len(formats) > 10 and all(weight == moment for weight, moment in formats)
