"""A training whose memory runs out, and what a resumed one has in memory."""

import gc
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.device import choose_algorithms
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.arcface import ArcFace
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.stage_end import Scores
from image_copies.models.training.trainer import Trainer
from tests import trainings
from tests.networks import run_out_of_memory

STAGE = trainings.STAGE | {"classes": 8, "epochs": 2}
SETTINGS = trainings.make_settings(stages=[STAGE])


def train(images: ImageSet, folder: Path, settings: ModelSettings = SETTINGS, **options: Any) -> None:
    """Train on eight images."""
    trainings.train(settings, images.select(images.ids[:8]), folder, images.select(images.ids[8:10]), **options)


def test_lack_of_memory_names_the_stage_and_its_sizes(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Trainer, "step", run_out_of_memory)
    with pytest.raises(
        UserError, match=r"stage 1 trained \(batch_size 8, image_size 32, 8 images\).*2\.00 GiB.*Lower batch_size"
    ):
        train(images, tmp_path)
    assert "trains on the CPU (" in capsys.readouterr().out or torch.cuda.is_available()


def test_moments_keep_the_memory_format_of_their_weights(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: Callable[[int], list[Trainer]]
) -> None:
    """A resumed Adam must not step over channels_last weights with moments in another format; the moments stay the same."""
    restore, formats = Trainer.restore, list[tuple[object, object]]()

    def seen(self: Trainer, state: dict[str, object]) -> None:
        restore(self, state)
        for number, (weight, moments) in enumerate(self.optimizers[0].state.items()):
            formats.append((weight.stride(), moments["exp_avg"].stride()))
            saved = state["optimizers"][0]["state"][number]["exp_avg"]  # type: ignore[index]
            assert torch.equal(moments["exp_avg"], saved)

    stop_at(2)
    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path)
    monkeypatch.setattr(Trainer, "restore", seen)
    train(images, tmp_path)
    assert len(formats) > 10 and all(weight == moment for weight, moment in formats)


def test_the_checkpoint_is_there_before_validation_and_the_class_matrix_gone(images: ImageSet, tmp_path: Path) -> None:
    """A validation takes memory beside the training: what fails in it must find all written, and the memory free."""
    folder, matrices = tmp_path / "model", list[object]()

    def validate(descriptor: Descriptor, size: int) -> Scores:
        assert load_descriptor(folder / "stage-1.safetensors").notes["validation"] is None
        assert json.loads((folder / "state.json").read_text())["progress"]["stage"] == 1
        gc.collect()
        matrices.extend(item for item in gc.get_objects() if type(item) is ArcFace)
        return 0.25, None

    train(images, tmp_path, validate=validate)
    assert matrices == []
    assert load_descriptor(folder / "stage-1.safetensors").notes["validation"] == 0.25
    assert [row["validation"] for row in read_rows(folder)] == ["", "0.25"]


def test_a_validation_that_fails_is_reported_and_training_goes_on(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: Descriptor, size: int) -> Scores:
        descriptor.eval()
        run_out_of_memory()

    train(images, tmp_path, trainings.make_settings(stages=[STAGE, STAGE | {"image_size": 48}]), validate=full)
    assert capsys.readouterr().out.count("the validation failed, training goes on without it: OutOfMemoryError: CUDA out of") == 2
    assert (tmp_path / "model" / "stage-2.safetensors").is_file()
    assert [row["validation"] for row in read_rows(tmp_path / "model")] == [""] * 4


def test_deterministic_training_takes_no_other_algorithms(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, seen = Trainer.step, []

    def noted(self: Trainer, *arguments: object) -> object:
        seen.append((torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark))
        return learn(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "step", noted)
    train(images, tmp_path / "one", SETTINGS.model_copy(update={"deterministic": True}))
    train(images, tmp_path / "two")
    assert seen == [(True, False)] * 2 + [(False, True)] * 2
    assert not torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.benchmark


def test_a_network_without_deterministic_algorithms_is_named() -> None:
    with (
        pytest.raises(UserError, match=r"deterministic: true is not possible.*put_.*Leave deterministic out"),
        choose_algorithms(True),
    ):
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.ones(2))


def test_a_deterministic_switch_is_not_another_training() -> None:
    assert SETTINGS.model_copy(update={"deterministic": True}).what_trains() == SETTINGS.what_trains()


def test_a_compiled_network_is_compiled_once_a_stage(images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch has one size, and each stage begins without what was compiled for another; torch.compile is left out."""
    resets, sizes, learn = list[int](), list[int](), Trainer.step
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(len(sizes)))

    def noted(self: Trainer, batches: Iterable[Any], *arguments: Any) -> Any:
        ready = list(batches)
        sizes.extend(len(pixels) for pixels, _, _ in ready)
        return learn(self, ready, *arguments)

    monkeypatch.setattr(Trainer, "step", noted)
    stage = STAGE | {"classes": None, "batch_size": 3, "epochs": 1}  # of 8 images
    train(images, tmp_path, trainings.make_settings(compile=True, stages=[stage, stage | {"image_size": 48}]))
    assert sizes == [3] * 4 and resets == [0, 2]
