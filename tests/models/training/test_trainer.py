"""Training end to end on tiny pictures: stages, curves, going on after a kill."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from image_copies.augmentations.composition import Record, draw_record, list_edits
from image_copies.augmentations.dataset import EditedImages
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.base import ObjectiveOutput
from image_copies.models.training.batches import order_classes
from image_copies.models.training.curve import read_rows
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.schedule import EpochSchedule
from image_copies.models.training.settings import StageSettings
from image_copies.models.training.stage_end import Scores
from image_copies.models.training.state import Progress
from image_copies.models.training.trainer import Trainer
from tests import trainings

StopAt = Callable[[int], list[Trainer]]
SETTINGS = ModelSettings.model_validate(
    {
        "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
        "workers": 0,
        "stages": [
            {"classes": 8, "intensity": 0.1, "image_size": 32, "batch_size": 8, "epochs": 2},
            {"classes": 16, "intensity": 0.3, "image_size": 32, "batch_size": 8, "epochs": 2},
            {"intensity": 0.5, "image_size": 48, "batch_size": 8, "epochs": 2},
        ],
    }
)

WITHOUT_STATISTICS = SETTINGS.model_copy(  # of batches, which are far from right after a few steps, so that vectors collapse
    update={"descriptor": SETTINGS.descriptor.model_copy(update={"backbone": "test_nfnet"})}
)


def train(images: ImageSet, folder: Path, settings: ModelSettings = SETTINGS, **options: Any) -> list[dict[str, str]]:
    """Train on 24 images, with the others as overlays, and return the rows of the curve."""
    classes, overlays = images.select(images.ids[:24]), images.select(images.ids[24:])
    options = {"validate": lambda descriptor, size: (0.5, None)} | options
    trainings.train(settings, classes, folder, overlays, **options)
    return read_rows(folder / "model")


def of_stages(*stages: StageSettings, **changes: object) -> ModelSettings:
    """Return the settings of a training of other stages."""
    return SETTINGS.model_copy(update={"stages": stages} | changes)


def change_stage(number: int, **changes: object) -> StageSettings:
    """Return a stage of the settings with some of its own changed."""
    return SETTINGS.stages[number].model_copy(update=changes)


def test_stages_grow_and_are_recorded(images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = list[float]()
    monkeypatch.setattr(EpochSchedule, "after_epoch", lambda _, loss: losses.append(loss))
    rows = train(images, tmp_path)
    assert losses == pytest.approx([float(row["loss"]) for row in rows], rel=1e-3)
    assert [row["classes"] for row in rows] == ["8", "8", "16", "16", "24", "24"]
    assert [row["ended_by"] for row in rows] == ["", "epochs", "", "epochs", "", "epochs"]
    assert rows[-1]["validation"] == "0.5" and rows[0]["validation"] == ""
    assert load_descriptor(tmp_path / "model" / "stage-3.safetensors").image_size == 48
    assert list((tmp_path / "model" / "tensorboard").iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"scheduler": {"kind": "warmup_cosine", "warmup_epochs": 1, "decay_epochs": 2}},
        {"scheduler": {"kind": "steps", "milestones": [1]}},
        {"scheduler": {"kind": "plateau", "warmup_steps": 5}},
        {"mix": {"kind": "mixup"}},  # draws as well
        {"objective": {"kind": "infonce"}, "sampling": {"kind": "repeated", "copies": 2}},
        {"optimizer": {"kind": "muon", "class_kind": "adam"}},
        {"turn": True},  # draws from torch's generator at each step
    ],
)
def test_a_killed_training_goes_on_with_the_same_curve(
    images: ImageSet, tmp_path: Path, stop_at: StopAt, change: dict[str, object]
) -> None:
    settings = ModelSettings.model_validate(of_stages(*SETTINGS.stages[:2]).model_dump(exclude_unset=True) | change)
    whole = train(images, tmp_path / "whole", settings)
    steps = stop_at(4)  # in the middle of the second stage's first epoch
    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path / "broken", settings)
    broken = train(images, tmp_path / "broken", settings)
    assert len(steps) == int(whole[-1]["step"]) + 1  # only the step that was stopped is done twice
    for column in ("loss", "learning_rate"):
        assert [row[column] for row in broken] == [row[column] for row in whole]


def test_a_checkpoint_torn_by_a_power_cut_is_written_again_from_the_state(images: ImageSet, tmp_path: Path) -> None:
    """It stayed torn: the training was finished, and its state said so."""
    settings = of_stages(SETTINGS.stages[0])
    train(images, tmp_path, settings)
    path = tmp_path / "model" / "stage-1.safetensors"
    whole, notes = path.read_bytes(), load_descriptor(path).notes
    assert notes["stage"] == 1 and notes["validation"] == 0.5
    for left in (b"", whole[: len(whole) // 2], None):
        path.unlink()
        if left is not None:
            path.write_bytes(left)
        train(images, tmp_path, settings)
        assert path.read_bytes() == whole and load_descriptor(path).notes == notes


def test_a_stage_ends_when_the_loss_is_low(images: ImageSet, tmp_path: Path) -> None:
    rows = train(images, tmp_path, of_stages(change_stage(0, stop_loss=1e9), change_stage(1, stop_loss=1e9)))
    assert [row["ended_by"] for row in rows] == ["loss", "loss"]


@pytest.mark.parametrize(
    ("losses", "ends"),
    [
        ([10.0, 9.95, 9.91], ["", "", "plateau"]),  # falls by less than a hundredth in two epochs
        ([10.0, 9.95, 9.89, 9.85, 9.8], ["", "", "", "", "plateau"]),
        ([10.0, 11.0, 9.0, 8.0, 7.0, 6.0], ["", "", "", "", "", "epochs"]),
    ],
)
def test_a_stage_ends_at_a_plateau(losses: list[float], ends: list[str]) -> None:
    stage, progress = change_stage(0, plateau_epochs=2, epochs=6), Progress()
    found = []
    for loss in losses:
        progress.end_epoch(loss)
        found.append(progress.end_reason(stage, loss))
    assert found == ends


def test_two_halves_of_a_batch_make_the_step_of_the_whole(images: ImageSet, tmp_path: Path) -> None:
    """SGD's steps are as large as its gradients, and nothing here depends on the other images of a batch."""
    sgd = SETTINGS.optimizer.model_copy(update={"kind": "sgd", "clip_norm": None})
    trained = []
    for batch_size, accumulate in ((8, 1), (4, 2)):
        stage = change_stage(0, batch_size=batch_size, epochs=1)
        changed = {"optimizer": sgd.model_copy(update={"accumulate": accumulate}), "stages": (stage,)}
        train(images, tmp_path / str(accumulate), WITHOUT_STATISTICS.model_copy(update=changed))
        trained.append(load_descriptor(tmp_path / str(accumulate) / "model" / "stage-1.safetensors").descriptor.state_dict())
    for name, whole in trained[0].items():
        torch.testing.assert_close(trained[1][name], whole, atol=1e-6, rtol=1e-4)


def test_other_images_or_settings_start_again_with_a_new_curve(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def finished(classes: ImageSet, seed: int) -> bytes:
        overlays = images.select(images.ids[24:])
        return trainings.train(of_stages(SETTINGS.stages[0]), classes, tmp_path, overlays, seed=seed).read_bytes()

    classes, board = images.select(images.ids[:12]), tmp_path / "model" / "tensorboard"
    before, events = finished(classes, 0), set(board.iterdir())
    assert finished(classes, 0) == before and "starts again" not in capsys.readouterr().out
    assert finished(images.select(images.ids[11::-1]), 0) != before and "starts again" in capsys.readouterr().out
    assert finished(classes, 1) != before
    assert [row["step"] for row in read_rows(tmp_path / "model")] == ["1", "2"]
    assert events and not events & set(board.iterdir())


def test_another_training_does_not_overwrite_an_unfinished_one(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def stopped(descriptor: Descriptor, size: int) -> Scores:
        ended.append(size)
        if len(ended) == 2:  # of three stages
            raise KeyboardInterrupt
        return 0.5, None

    with pytest.raises(KeyboardInterrupt):
        train(images, tmp_path, validate=stopped)
    state = (tmp_path / "model" / "state.json").read_bytes()
    other = SETTINGS.descriptor.model_copy(update={"backbone": "test_nfnet"})
    with pytest.raises(UserError, match=r"settings.descriptor.backbone: test_efficientnet → test_nfnet.*delete this file"):
        train(images, tmp_path, SETTINGS.model_copy(update={"descriptor": other}))
    with pytest.raises(UserError, match=r"classes and their order: 24 images, T000000 to T000023.* → 24 images, T000023 to T00"):
        trainings.train(SETTINGS, images.select(images.ids[23::-1]), tmp_path, images.select(images.ids[24:]))
    assert (tmp_path / "model" / "state.json").read_bytes() == state
    embedding = SETTINGS.model_copy(update={"embedding": EmbeddingSettings(image_size=64), "workers": 1})
    train(images, tmp_path, embedding)  # goes on: neither changes what is trained


def test_training_goes_on_without_the_weights_it_began_with(images: ImageSet, tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    save_file(Descriptor(SETTINGS.descriptor).backbone.state_dict(), weights)
    descriptor = SETTINGS.descriptor.model_copy(update={"weights": str(weights)})
    settings = of_stages(SETTINGS.stages[0], descriptor=descriptor)
    whole = train(images, tmp_path, settings)
    weights.unlink()
    assert train(images, tmp_path, settings) == whole


def test_too_few_images(images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = train(images, tmp_path, of_stages(change_stage(0, classes=100)))
    assert "wants 100 classes, but there are 24" in capsys.readouterr().out and rows[-1]["classes"] == "24"
    with pytest.raises(UserError, match=r"1 class\(es\); training needs at least two"):
        trainings.train(SETTINGS, images.select(images.ids[:1]), tmp_path / "one")


def test_later_stages_that_want_more_classes_than_there_are(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most of the seven models of the ISC2021 paper grow beyond the million training images; the first stage never does."""
    stages = [change_stage(1, classes=count, epochs=1) for count in (8, 30, 40)]
    rows = train(images, tmp_path, of_stages(*stages))
    reported = capsys.readouterr().out
    assert "stage 2 wants 30 classes, stage 3 wants 40 classes, but there are 24" in reported
    assert [(row["stage"], row["classes"]) for row in rows] == [("1", "8"), ("2", "24"), ("3", "24")]


def test_a_loss_is_read_steps_later_and_named_by_its_own(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device computes further steps before the host reads the loss; nothing of them is saved."""
    compute, steps = Trainer.compute_batch_loss, list[Tensor]()

    def broken_at_the_second(self: Trainer, pixels: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        steps.append(instances)
        output = compute(self, pixels, labels, instances)
        return ObjectiveOutput(output.loss * torch.nan, output.logs) if len(steps) == 2 else output

    monkeypatch.setattr(Trainer, "compute_batch_loss", broken_at_the_second)
    with pytest.raises(UserError, match=r"the loss is nan at step 2 \(stage 1, images ") as error:
        train(images, tmp_path, of_stages(SETTINGS.stages[2]))
    assert len(steps) == 3 and images.ids[int(steps[1][0])] in str(error.value)
    assert not list((tmp_path / "model").glob("*.safetensors"))


def test_broken_weights_are_never_saved(images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that is NaN, whose loss was finite, in the last step of a stage."""

    def broken(self: Trainer) -> None:
        for parameter in self.descriptor.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)

    monkeypatch.setattr(Trainer, "_arrange_gradients", broken)
    with pytest.raises(UserError, match=r"NaN or infinite after step 1 \(stage 1\).*lower optimizer.learning_rate"):
        train(images, tmp_path, of_stages(change_stage(0, epochs=1)))
    assert not list((tmp_path / "model").glob("*.safetensors"))


@pytest.mark.parametrize(
    ("own", "extra", "first", "second"),  # the stages' classes; extra ones are numbered from 100
    [
        (8, 9, [0, 1, 100, 101], [0, 1, 2, 3, 4, 5, 100, 101, 102, 103]),
        (8, 0, [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 9, [0, 1, 100, 101], [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]),
    ],
)
def test_each_stage_has_its_share_of_extra_classes(own: int, extra: int, first: list[int], second: list[int]) -> None:
    stages = [StageSettings(classes=4, extra_classes=2), StageSettings(classes=10, extra_classes=4)]
    order = [row if row < own else row - own + 100 for row in order_classes(stages, own, extra)]
    assert (sorted(order[:4]), sorted(order[:10]), len(order)) == (first, second, own + extra)
    assert order_classes([StageSettings(classes=4), StageSettings()], own, extra) == list(range(own + extra))


def test_unreadable_training_images_are_left_out_and_told(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "T000003.jpg").write_bytes(b"")
    paths = [
        tmp_path / "T000003.jpg" if image_id == "T000003" else path
        for image_id, path in zip(images.ids, images.paths, strict=True)
    ]
    rows = train(ImageSet(images.ids, paths), tmp_path, of_stages(SETTINGS.stages[0]))
    assert "1 of 24 training images are left out, the first: T000003 is empty" in capsys.readouterr().out
    assert [row["classes"] for row in rows] == ["7", "7"]


def test_the_learning_rate_falls_over_the_stages_budget(images: ImageSet, tmp_path: Path) -> None:
    falling = change_stage(0, epochs=10, last_learning_rate_factor=0.1)
    again = change_stage(0, epochs=2, last_learning_rate_factor=0.01, learning_rate_factor=0.5)
    constant = SETTINGS.scheduler.model_copy(update={"kind": "constant"})
    rows = train(images, tmp_path, of_stages(falling, again, scheduler=constant))
    rates = [1000 * float(row["learning_rate"]) for row in rows]  # 0.001 is the recipe's
    assert rates[:9] == sorted(rates[:9], reverse=True) and rates[0] > 0.9 and 0.1 <= rates[9] < 0.15
    assert rates[11] < 0.5 and len(rows) == 12


def test_stages_and_models_do_not_replay_each_others_edits(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs begin at 0 in each stage: with the seed, epoch and id alone, every stage of every model saw the same pictures."""
    seen, by_stage, edited = dict[str, bytes](), list[dict[str, bytes]](), EditedImages.__getitem__

    def noted(self: EditedImages, key: tuple[int, int, int]) -> tuple[torch.Tensor, int]:
        pixels, row = edited(self, key)
        if key[0] >= 0:  # not of the rebuild of the class matrix
            seen[f"{self.size} {key}"] = pixels.numpy().tobytes()
        return pixels, row

    def stage_ends(descriptor: Descriptor, size: int) -> Scores:
        by_stage.append(dict(seen))
        seen.clear()
        return 0.5, None

    monkeypatch.setattr(EditedImages, "__getitem__", noted)
    settings = of_stages(SETTINGS.stages[2], change_stage(2, epochs=3))
    for name in ("first", "second"):
        train(images, tmp_path / name, settings, validate=stage_ends, name=name)
    for one, other in combinations(by_stage, 2):
        shared = one.keys() & other.keys()
        assert len(shared) >= 48 and sum(one[key] == other[key] for key in shared) < 6  # an image may stay as it is


@pytest.mark.parametrize(("edits", "embeddings", "pretrained"), [(4, 5, False), (1, 2, False), (0, 1, False), (0, 1, True)])
def test_the_class_matrix_begins_from_as_many_edited_images_as_the_stage_says(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edits: int, embeddings: int, pretrained: bool
) -> None:
    """That of the first stage does so, too, if the backbone is pretrained."""
    of_rebuild, areas = [], set[float]()
    edited = EditedImages.__getitem__

    def noted(self: EditedImages, key: tuple[int, int, int]) -> tuple[torch.Tensor, int]:
        if key[0] < 0:
            of_rebuild.append(key)
        areas.add(self.images.pixels[key[1]].size / 3)
        return edited(self, key)

    monkeypatch.setattr(EditedImages, "__getitem__", noted)
    weights = tmp_path / "weights.safetensors"
    save_file(Descriptor(SETTINGS.descriptor).backbone.state_dict(), weights)
    descriptor = SETTINGS.descriptor.model_copy(update={"weights": str(weights)} if pretrained else {})
    stages = (change_stage(number, centroid_edits=edits) for number in (0, 1))
    train(images, tmp_path, of_stages(*stages, descriptor=descriptor))
    at_ends = 8 + 16  # clean images of each stage's classes, of which collapse is measured
    assert len(of_rebuild) == (16 + 8 * pretrained) * embeddings + at_ends
    assert min(epoch for epoch, _, _ in of_rebuild) == -max(1, edits)  # each time with other edits
    assert min(areas) == pytest.approx(48**2, rel=0.1)  # edits are made of images half as large again as the 32 pixels learnt


@pytest.mark.parametrize("labels", [None, np.arange(24) % 12])
def test_what_is_pasted_is_no_class_of_the_stage_yet(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: NDArray[np.int64] | None
) -> None:
    """With labels, images that are not learnt from yet may be of classes that are: the overlays alone are pasted."""
    pasted, make = list[set[str]](), EditedImages.__init__

    def noted(self: EditedImages, *given: Any) -> None:
        make(self, *given)
        pasted.extend([set(self.overlays.ids)] if self.overlays else [])

    monkeypatch.setattr(EditedImages, "__init__", noted)
    train(images, tmp_path, of_stages(SETTINGS.stages[0]), labels=labels)
    assert pasted == [set(images.ids[8 if labels is None else 24 :])]


def test_each_stage_draws_edits_with_its_own_probabilities(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, set[str]] = {"32": set(), "48": set()}

    def noted(settings: AugmentationSettings, *arguments: Any) -> Record:
        record = draw_record(settings, *arguments)
        drawn["48" if settings.probabilities else "32"] |= {entry["edit"] for entry in record}
        return record

    monkeypatch.setattr("image_copies.augmentations.dataset.draw_record", noted)
    names = [edit.name for edit in list_edits(SETTINGS.edits_of(SETTINGS.stages[2]))]
    only = {name: float(name == "hflip") for name in names}
    train(images, tmp_path, of_stages(SETTINGS.stages[1], change_stage(2, edit_probabilities=only)))
    assert drawn["48"] == {"hflip"} and len(drawn["32"]) > 2


def test_a_later_stage_draws_from_its_own_table() -> None:
    first, last = SETTINGS.stages[1], change_stage(2, edits="many")
    without = SETTINGS.model_copy(update={"extra_edits": True, "without_edits": ("paper", "frame")})
    families = [{row.family for row in list_edits(without.edits_of(stage))} for stage in (first, last)]
    assert "crop" in families[0] < families[1] and "weather" in families[1] - families[0]
    assert families[1].isdisjoint({"paper", "frame"})


def test_an_unknown_edit_of_a_later_stage_is_refused_before_training(images: ImageSet, tmp_path: Path) -> None:
    last = change_stage(2, edit_probabilities={"colage": 0.5})
    with pytest.raises(UserError, match="'colage', which is not an edit"):
        train(images, tmp_path, of_stages(*SETTINGS.stages[:2], last))
    assert not (tmp_path / "cache").exists()


def test_a_stage_that_ends_below_an_earlier_one_is_warned_of(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = iter([0.5, 0.7, 0.6])
    rows = train(images, tmp_path, WITHOUT_STATISTICS, validate=lambda descriptor, size: (next(scores), None))
    told = [line for line in capsys.readouterr().out.splitlines() if "warning: stage" in line]
    assert len(told) == 1 and "stage 3 ends at a µAP of 0.600, below the 0.700 of stage 2" in told[0]
    warned = [row["warning"] for row in rows]
    assert warned[:-1] == [""] * 5 and "  warning: " + warned[-1] == told[0]


@pytest.mark.parametrize(
    ("last_size", "left_out", "kept"),
    [(32, [0.4, 0.6, 0.5], 2), (48, [0.4, 0.6, 0.5], 3), (32, [0.4, 0.5, 0.5], 3), (32, [None] * 3, 3)],
)
def test_the_stage_that_is_best_where_edits_are_left_out_is_kept(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], last_size: int, left_out: list[float | None], kept: int
) -> None:
    scores = iter(zip([0.5, 0.6, 0.7], left_out, strict=True))
    settings = of_stages(*SETTINGS.stages[:2], change_stage(2, image_size=last_size))
    rows = train(images, tmp_path, settings, validate=lambda descriptor, size: next(scores))
    assert [row["left_out"] for row in rows[1::2]] == ["" if score is None else str(score) for score in left_out]
    last = tmp_path / "model" / "stage-3.safetensors"
    assert load_descriptor(last).notes["stage"] == kept
    if kept == 2:
        assert last.read_bytes() == last.with_name("stage-2.safetensors").read_bytes()
        shown = capsys.readouterr().out
        assert "weights of stage 2 are kept" in shown and "0.500, below the 0.600 of stage 2" in shown
        assert "µAP on synthetic queries 0.700 (0.500 where edits are left out)" in shown


def test_vectors_that_collapse_are_warned_of(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = train(images, tmp_path / "well", WITHOUT_STATISTICS)
    shown = capsys.readouterr().out
    assert "collapse" not in shown and "mean cosine 0." in shown and "effective rank " in shown
    assert [bool(row["mean_cosine"]) for row in rows] == [False, True] * 3  # at each stage's end
    assert all(float(row["effective_rank"]) > 3 and float(row["mean_cosine"]) < 0.95 for row in rows[1::2])
    forward = Descriptor.forward
    monkeypatch.setattr(Descriptor, "forward", lambda self, x, raw=False: forward(self, x, raw) * 1e-3 + 1.0)
    rows = train(images, tmp_path / "badly")
    assert "warning: vectors collapse in stage 3 (mean cosine of different images 1.000, above" in capsys.readouterr().out
    assert "vectors collapse in stage 3" in rows[-1]["warning"]


def test_a_start_from_weights_stands_first_in_the_curve(
    images: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "weights.safetensors"
    state = Descriptor(SETTINGS.descriptor).backbone.state_dict()
    wrong = {name: torch.full_like(value, 5.0) if name.endswith("running_mean") else value for name, value in state.items()}
    save_file(wrong, weights)
    started = SETTINGS.descriptor.model_copy(update={"weights": str(weights)})
    settings = of_stages(SETTINGS.stages[0], descriptor=started)
    scores = iter([0.6, 0.4])
    rows = train(images, tmp_path, settings, validate=lambda descriptor, size: (next(scores), None))
    assert [(row["stage"], row["validation"], row["ended_by"]) for row in rows] == [
        ("0", "0.6", "start"),
        ("1", "", ""),
        ("1", "0.4", "epochs"),
    ]
    told = capsys.readouterr().out
    assert "the start: µAP on synthetic queries 0.600" in told and "below the 0.600 of the start" in told
    assert "disagree" in told and "disagree (mean cosine" in rows[0]["warning"]
    assert "below the 0.600 of the start" in rows[-1]["warning"]
