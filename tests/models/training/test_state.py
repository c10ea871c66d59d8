import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.training import state
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.state import Progress, StateSaver, load_state, save_state
from image_copies.models.training.trainer import Trainer
from tests import trainings

ME = {"settings": {"seed": 1, "stages": [{"epochs": 1}]}}
STATE: dict[str, Any] = {
    "weights": {"a": torch.arange(6.0).reshape(2, 3), "empty": torch.zeros(0)},
    "optimizers": [
        {"state": {0: {"step": torch.tensor(3.0)}, 1: {}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "none": None}]}
    ],
}


def test_a_state_comes_back_with_its_types(tmp_path: Path) -> None:
    fabric, progress = launch_fabric("32"), Progress(stage=1, epoch=2, batch=3, step=40, sums={"loss": 1.5})
    save_state(tmp_path, ME, progress, STATE, fabric)
    found = load_state(tmp_path, ME, fabric)
    assert found is not None
    again, state = found
    assert again == progress and state["optimizers"][0]["param_groups"][0] == {"lr": 0.1, "betas": [0.9, 0.999], "none": None}
    assert torch.equal(state["weights"]["a"], STATE["weights"]["a"]) and len(state["weights"]["empty"]) == 0
    assert state["optimizers"][0]["state"][0]["step"] == 3 and 1 in state["optimizers"][0]["state"]  # keys stay numbers
    assert load_state(tmp_path, {"settings": {"seed": 2}}, fabric) is None


@pytest.fixture
def train(images: ImageSet, tmp_path: Path, stop_at: Callable[[int], list[Trainer]]) -> Callable[[], Path]:
    """Trains ten steps of two images, with a state saved after each, in a folder."""
    settings = trainings.make_settings(stages=[{"image_size": 32, "batch_size": 2, "epochs": 5}])
    stop_at(0)  # never
    return lambda: trainings.train(settings, images.select(images.ids[:4]), tmp_path)


def test_a_training_that_is_interrupted_goes_on_from_the_step_before(
    train: Callable[[], Path], tmp_path: Path, stop_at: Callable[[int], list[Trainer]]
) -> None:
    stop_at(4)
    with pytest.raises(KeyboardInterrupt):
        train()
    assert json.loads((tmp_path / "model/state.json").read_text())["progress"]["step"] == 3
    assert [path.name for path in (tmp_path / "model").glob("state-*")] == ["state-3-0.safetensors"]


def test_a_state_with_a_wrapped_objective_goes_on_to_the_same_weights(
    train: Callable[[], Path], tmp_path: Path, stop_at: Callable[[int], list[Trainer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every training before 28 November saved it; it ended in a traceback."""
    whole = load_file(train())
    shutil.rmtree(tmp_path / "model")
    own = Trainer.state

    def wrapped(trainer: Trainer) -> dict[str, Any]:
        found = own(trainer)
        return found | {"objective": {f"objective.{name}": value for name, value in found["objective"].items()}}

    stop_at(4)
    with monkeypatch.context() as before, pytest.raises(KeyboardInterrupt):
        before.setattr(Trainer, "state", wrapped)
        train()
    continued = load_file(train())
    assert all(torch.equal(continued[name], value) for name, value in whole.items())


def test_a_state_that_cannot_be_written_ends_the_training(
    train: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tensors: object, path: Path, **_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(state, "save_file", fail)
    with pytest.raises(UserError, match=r"cannot be written to .*state-1-0\.safetensors .*Input/output error.*make room"):
        train()
    assert not list((tmp_path / "model").glob("*state*"))


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    fabric = launch_fabric("32")
    save_state(tmp_path, ME, Progress(step=1), STATE, fabric)
    (tmp_path / "state-1-0.safetensors").write_bytes(b"garbage")
    with pytest.raises(UserError, match=r"state\.json or its neighbour cannot be read .*Delete it"):
        load_state(tmp_path, ME, fabric)


def test_another_number_of_threads_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric, threads = launch_fabric("32"), torch.get_num_threads()
    save_state(tmp_path, ME, Progress(step=1), STATE, fabric)
    about = json.loads((tmp_path / "state.json").read_text())
    assert about["threads"] == threads
    assert load_state(tmp_path, ME, fabric) and "warning" not in capsys.readouterr().out
    (tmp_path / "state.json").write_text(json.dumps(about | {"threads": threads + 1}))
    assert load_state(tmp_path, ME, fabric)
    said = capsys.readouterr().out
    assert f"saved with {threads + 1} threads and goes on with {threads}" in said and f"OMP_NUM_THREADS={threads + 1}" in said


def test_shards_of_other_processes_are_refused_in_the_middle_of_a_stage(tmp_path: Path) -> None:
    fabric = launch_fabric("32")
    save_state(tmp_path, ME, Progress(step=1, epoch=1), STATE, fabric)
    about = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps(about | {"processes": 4}))
    with pytest.raises(UserError, match="saved in the middle of a stage by 4 processes"):
        load_state(tmp_path, ME, fabric)


def test_a_full_disk_leaves_the_older_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(tensors: object, path: Path, **_: Any) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    fabric = launch_fabric("32")
    save_state(tmp_path, ME, Progress(step=1), STATE, fabric)
    monkeypatch.setattr(state, "save_file", fill)
    with pytest.raises(UserError, match=r"cannot be written: the disk is full.*make room"):
        save_state(tmp_path, ME, Progress(step=2), STATE, fabric)
    found = load_state(tmp_path, ME, fabric)
    assert found is not None and found[0].step == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state-1-0.safetensors", "state.json"]


def test_a_training_that_began_before_a_key_goes_on_and_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """What an earlier version saved of the settings is read as today's."""
    fabric = launch_fabric("32")
    settings = ModelSettings.model_validate({"descriptor": {"backbone": "test_efficientnet"}, "stages": [{"classes": 4}]})
    now = {"settings": settings.what_trains().model_dump(mode="json")}
    before: dict[str, Any] = {"settings": json.loads(json.dumps(now["settings"]))}
    del before["settings"]["turn"]
    before["settings"]["stages"][0] |= {"centroid_edits": None, "edits_gone": None}
    save_state(tmp_path, before, Progress(step=1), STATE, fabric)
    assert load_state(tmp_path, now, fabric)
    before["settings"]["stages"][0]["gone"] = 0.5
    save_state(tmp_path, before, Progress(step=1), STATE, fabric)
    with pytest.raises(UserError, match=r"saved ones cannot be read by this version \(stages\.0\.gone: Extra inputs"):
        load_state(tmp_path, now, fabric)


@pytest.mark.parametrize(("took", "interval"), [(0.1, 30), (1.0, 120), (5.1, 600), (40.0, 600)])
def test_a_state_that_takes_long_is_saved_less_often(monkeypatch: pytest.MonkeyPatch, took: float, interval: float) -> None:
    """A million classes were written every 72 seconds, 7 to 14 TB a day."""
    clock = [0.0]
    monkeypatch.setattr(state, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(state, "save_state", lambda *_: clock.append(clock.pop() + took))
    alone: Any = SimpleNamespace(broadcast=lambda value: value)
    saver, due = StateSaver(Path(), {}, alone), list[bool]()
    saver.save(Progress(), {})
    for clock[0] in (took, took + interval - 1, took + interval + 1):
        due.append(saver.due())
    assert due == [False, False, True]
