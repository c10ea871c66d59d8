from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from image_copies.models.network.base import ImageDescriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.plan import _Step, describe_machine, plan_model

STAGES = [
    {"classes": 100, "image_size": 32, "batch_size": 8, "epochs": 3},
    {"classes": 400, "image_size": 64, "batch_size": 8},
]


def settings(negatives: float | None = None, **optimizer: object) -> ModelSettings:
    descriptor = {"backbone": "test_efficientnet", "dimensions": 16}
    objective = {"kind": "arcface", "negatives": negatives}
    return ModelSettings.model_validate(
        {"descriptor": descriptor, "objective": objective, "optimizer": optimizer, "stages": STAGES}
    )


def test_memory_follows_classes_size_optimiser_and_processes() -> None:
    first, second = plan_model(settings(), 300)
    assert (first.classes, second.classes) == (100, 300)  # no more than there are
    assert first.matrix == 2 * 100 * 16 * 4 and second.matrix == 3 * first.matrix
    assert 2 < second.activations / first.activations < 5  # four times the pixels
    assert first.optimizer - 4 * 100 * 16 * 4 == second.optimizer - 4 * 300 * 16 * 4 == 2 * first.network
    assert first.memory == first.matrix + first.optimizer + first.network + first.activations
    lean, _ = plan_model(settings(class_kind="adafactor"), 300)
    assert first.optimizer - lean.optimizer == (3 * 100 * 16 - 100 - 16) * 4
    muon, _ = plan_model(settings(kind="muon", class_kind="adam"), 300)
    assert first.optimizer - muon.optimizer == first.network  # per weight, momentum and its update instead of four floats
    drawn, _ = plan_model(settings(negatives=0.1), 300)
    assert drawn.matrix == first.matrix + 2 * (10 + 8) * 16 * 4  # a tenth of the rows and the batch's own, copied
    half = {"precision": "bf16", "objective": {"kind": "arcface", "rounded_rows": True}}
    rounded, _ = plan_model(ModelSettings.model_validate(settings().model_dump(exclude_unset=True) | half), 300)
    assert rounded.matrix == first.matrix + 100 * (16 + 8) * 2  # the rows, and exp of a batch's logits
    shared, _ = plan_model(settings(), 300, processes=4)
    assert shared.matrix == first.matrix // 4 and shared.activations < first.activations


def test_a_fixed_number_of_iterations_is_what_an_epoch_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_copies.models.training.plan._measure_step", lambda *_: _Step(0.01, 0.0, 1000))
    fixed = settings().model_dump(exclude_unset=True) | {"sampling": {"iterations": 50}}
    first, _ = plan_model(ModelSettings.model_validate(fixed), 300)
    assert first.epoch_seconds == pytest.approx(50 * 8 * 0.01)
    own = [stage | {"iterations": 20} for stage in fixed["stages"]]
    first, _ = plan_model(ModelSettings.model_validate(fixed | {"stages": own}), 300)
    assert first.epoch_seconds == pytest.approx(20 * 8 * 0.01)


def test_a_stage_that_is_left_out_takes_no_time() -> None:
    """Both stages are to learn 300 classes and more, where there are 300."""
    stages = [{"classes": count, "image_size": 32, "batch_size": 8} for count in (300, 400)]
    both = settings().model_dump(exclude_unset=True) | {"stages": stages}
    assert [plan.stage for plan in plan_model(ModelSettings.model_validate(both), 300)] == [1]


def test_copies_and_labels_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 images of 3 classes: repeated three times, or in groups of 4; a classifier has a row a class, pairs have none."""
    monkeypatch.setattr("image_copies.models.training.plan._measure_step", lambda *_: _Step(1.0, 0.0, 1000))
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 2])

    def planned(objective: str, labels: NDArray[np.int64] | None, **sampling: object) -> tuple[float, int, int]:
        given = {
            "descriptor": {"backbone": "test_efficientnet", "dimensions": 16},
            "stages": [{"image_size": 32, "batch_size": 8}],
        }
        model = ModelSettings.model_validate(given | {"objective": {"kind": objective}, "sampling": sampling})
        (plan,) = plan_model(model, 8, processes=2, labels=labels)
        return plan.epoch_seconds, plan.classes, plan.matrix // (2 * 16 * 4)

    processors = 2 if torch.cuda.is_available() else 1
    assert planned("multigrain", labels, kind="repeated", copies=3) == (24 / processors, 3, 3)
    assert planned("triplet", labels, kind="pk", per_class=4) == (16 / processors, 3, 0)
    assert planned("triplet", None, kind="pk", per_class=4) == (32 / processors, 8, 0)
    assert planned("arcface", labels, kind="epoch") == (8 / processors, 3, 2)


def test_time_is_bounded_by_epochs() -> None:
    first, _ = plan_model(settings(), 400)
    assert first.most_seconds == pytest.approx(3 * first.epoch_seconds) and first.epoch_seconds > 0


def test_processes_without_gpus_share_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_copies.models.training.plan.best_device", lambda: torch.device("cpu"))
    monkeypatch.setattr("image_copies.models.training.plan._measure_step", lambda *_: _Step(0.01, 0.0, 1000))
    for alone, together in zip(plan_model(settings(), 300), plan_model(settings(), 300, processes=4), strict=True):
        assert alone.epoch_seconds == together.epoch_seconds > 0
    monkeypatch.setattr("os.sysconf", {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert [describe_machine(tmp_path, processes).memory for processes in (1, 4)] == [4096000, 1024000]


def test_the_head_is_extrapolated_along_a_line_not_from_the_start_of_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's times, played: 2 ms to start, 10 ns a class and step. In proportion to 20,000 classes: 11 times as much."""
    monkeypatch.setattr("image_copies.models.training.plan._time_head", lambda *_: 2e-3 + 1e-8 * _[3])
    monkeypatch.setattr("image_copies.models.training.plan._time_steps", lambda *_: 5e-3)
    monkeypatch.setattr("image_copies.models.training.plan._time_edits", lambda *_: 0.0)
    monkeypatch.setattr("image_copies.models.training.plan._measure_time", played)
    stages = [{"image_size": 32, "batch_size": 100}]
    model = ModelSettings.model_validate({"descriptor": {"backbone": "test_efficientnet", "dimensions": 16}, "stages": stages})
    (plan,) = plan_model(model, 1_000_000)
    assert plan.epoch_seconds == pytest.approx(10_000 * (5e-3 + 2e-3 + 1e-2))


@contextmanager
def played(_: torch.device) -> Iterator[list[float]]:
    yield [0.0]


@pytest.mark.parametrize(
    ("device", "workers", "seconds"), [("cpu", 2, 300 + 30), ("cpu", 0, 300 + 60), ("cuda", 2, 300), ("cuda", 0, 360)]
)
def test_edits_are_made_beside_a_gpu_and_by_its_cores(
    monkeypatch: pytest.MonkeyPatch, device: str, workers: int, seconds: float
) -> None:
    class Moved(ImageDescriptor):  # a descriptor that may go to a GPU that is not there
        dimensions = 16

        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()

        def to(self, *_: object, **__: object) -> "Moved":
            return self

    monkeypatch.setattr("image_copies.models.training.plan.Descriptor", Moved)
    monkeypatch.setattr("image_copies.models.training.plan.check_image_sizes", lambda *_: None)
    monkeypatch.setattr("image_copies.models.training.plan.choose_memory_format", lambda *_, **__: torch.channels_last)
    monkeypatch.setattr("image_copies.models.training.plan.choose_chunk", lambda given, *_: given)
    monkeypatch.setattr("image_copies.models.training.plan.best_device", lambda: torch.device(device))
    monkeypatch.setattr("image_copies.models.training.plan.usable_cores", lambda: 8)
    monkeypatch.setattr("image_copies.models.training.plan._measure_step", lambda *_: _Step(1.0, 0.0, 1000, seconds_per_edit=0.2))
    first, _ = plan_model(settings().model_copy(update={"workers": workers}), 300)
    assert first.epoch_seconds == pytest.approx(seconds / 3) and first.edit_seconds == pytest.approx(20 / max(1, workers))


def test_the_disk_holds_two_training_states_and_the_checkpoint() -> None:
    first, _ = plan_model(settings(), 300)
    weights, matrix = first.network // 2, 100 * 16 * 4
    assert first.state == 2 * (3 * weights + 3 * matrix) + weights  # Adam keeps two more of each
    assert first.edit_seconds > 0
