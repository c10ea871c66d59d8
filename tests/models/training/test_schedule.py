"""Learning rates over the steps of a stage, and its optimisers: rates, decay, clipping, what is kept, Adam in one kernel."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from image_copies.data.images import ImageSet
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.settings import ArcFaceSettings, ObjectiveSettings
from image_copies.models.training.schedule import EpochSchedule, build_optimizers, cosine, warmup_cosine
from image_copies.models.training.settings import OptimizerSettings, SchedulerSettings
from image_copies.models.training.trainer import Trainer
from image_copies.studies.multigrain.settings import MultiGrainSettings, SoftmaxSettings
from tests import trainings
from tests.networks import SMALL

STEPS, EPOCH = 12, 4  # of a stage, of an epoch


def rates(settings: SchedulerSettings, fall_to: float | None = None, stopped: int | None = None) -> list[float]:
    """The rate of each of 12 steps, 4 an epoch; the losses never fall. The schedule is loaded from its state before `stopped`."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    schedule, found = EpochSchedule([optimizer], settings, fall_to), []
    for step in range(STEPS):
        if step == stopped:
            again = EpochSchedule([optimizer], settings, fall_to)
            again.load_state_dict(schedule.state_dict())
            schedule = again
        schedule.before_step(step / EPOCH, step / STEPS, step)
        found.append(float(optimizer.param_groups[0]["lr"]))
        if step % EPOCH == EPOCH - 1:
            schedule.after_epoch(1.0)
    return found


@pytest.mark.parametrize("stopped", [None, 3, 5, 6])
def test_rates_warm_up_over_steps_beside_any_schedule(stopped: int | None) -> None:
    warm = [min(1.0, (step + 1) / 5) for step in range(STEPS)]
    plain = {"warmup_steps": 5}
    constant = SchedulerSettings.model_validate({"kind": "constant"} | plain)
    assert rates(constant, stopped=stopped) == pytest.approx([0.5 * share for share in warm])
    falling = [0.5 * share * cosine(step / STEPS, 0.1) for step, share in enumerate(warm)]
    assert rates(constant, 0.1, stopped) == pytest.approx(falling)
    curved = SchedulerSettings.model_validate({"kind": "warmup_cosine", "warmup_epochs": 0, "decay_epochs": 3} | plain)
    along = [0.5 * share * warmup_cosine(step / EPOCH, curved) for step, share in enumerate(warm)]
    assert rates(curved, stopped=stopped) == pytest.approx(along)
    plateau = SchedulerSettings.model_validate({"kind": "plateau", "patience": 0, "factor": 0.5} | plain)
    # the first epoch ends while rates warm up, the second sets the lowest loss, the third is no lower
    assert rates(plateau, stopped=stopped) == pytest.approx([0.5 * share for share in warm])
    sooner = plateau.model_copy(update={"warmup_steps": 2})
    assert rates(sooner, stopped=stopped)[7:] == pytest.approx([0.5, 0.25, 0.25, 0.25, 0.25])


def test_without_a_warm_up_nothing_changes() -> None:
    assert rates(SchedulerSettings(kind="constant")) == [0.5] * STEPS


def test_the_cosine_falls_over_its_epochs_to_the_floor() -> None:
    settings = SchedulerSettings(kind="warmup_cosine", warmup_epochs=2, decay_epochs=4, floor=0.1)
    found = [warmup_cosine(epoch, settings) for epoch in (0, 1, 2, 4, 6, 9)]
    assert found == pytest.approx([0.1, 0.5, 1, 0.1 + 0.9 / 2, 0.1, 0.1])


def test_the_backbone_has_a_rate_of_its_own() -> None:
    descriptor, objective = Descriptor(SMALL), ArcFaceSettings().build(16, 5, seed=0)
    settings = OptimizerSettings(learning_rate=1e-2, backbone_learning_rate=1e-4, class_learning_rate=1e-1, weight_decay=0.1)
    (optimizer,) = build_optimizers(descriptor, objective, settings, factor=0.5)
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert all(rates[id(parameter)] == (5e-5, 0.1) for parameter in descriptor.backbone.parameters())
    assert rates[id(descriptor.projection.weight)] == (5e-3, 0.1) and rates[id(descriptor.pooling.exponent)] == (5e-3, 0.0)
    assert all(rates[id(parameter)][0] == 5e-2 for parameter in objective.parameters())
    assert len(rates) == len([*descriptor.parameters(), *objective.parameters()])


def test_frozen_statistics_stay_while_it_learns() -> None:
    images = torch.rand(4, 3, 32, 32)
    for frozen in (True, None):
        descriptor = Descriptor(SMALL.model_copy(update={"frozen_statistics": frozen})).train()
        before = {name: value.clone() for name, value in descriptor.named_buffers() if "running" in name}
        descriptor(images, raw=True).sum().backward()
        changed = [
            name for name, value in descriptor.named_buffers() if "running" in name and not torch.equal(value, before[name])
        ]
        assert (not changed) == bool(frozen) and descriptor.training
        assert all(parameter.grad is not None for parameter in descriptor.backbone.parameters())
        descriptor.eval()
        assert not any(module.training for module in descriptor.modules())


@pytest.mark.parametrize(
    ("objective", "not_decaying"),
    [
        (SoftmaxSettings(), {"pooling.exponent"}),
        (MultiGrainSettings(), {"pooling.exponent", "margin.beta"}),
        (ArcFaceSettings(), {"pooling.exponent", "matrix"}),
    ],
)
def test_all_but_exponents_and_class_matrices_decay(objective: ObjectiveSettings, not_decaying: set[str]) -> None:
    descriptor, learnt = Descriptor(SMALL), objective.build(16, 5, seed=0)
    (optimizer,) = build_optimizers(descriptor, learnt, OptimizerSettings(kind="sgd", weight_decay=0.25))
    names = {id(parameter): name for part in (descriptor, learnt) for name, parameter in part.named_parameters()}
    found = {names[id(p)]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert found.keys() == set(names.values()) and set(found.values()) == {0.25, 0.0}
    assert {name for name, decay in found.items() if decay == 0.0} == not_decaying


CLASSES, DIMENSIONS = 2000, 64


@pytest.mark.parametrize(("kind", "floats"), [("adafactor", CLASSES + DIMENSIONS + 1), ("plain_sgd", 0)])
def test_little_is_kept_and_only_rows_with_a_gradient_move(kind: str, floats: int) -> None:
    torch.manual_seed(0)
    head = ArcFaceSettings().build(DIMENSIONS, CLASSES, 0)
    settings = OptimizerSettings.model_validate({"class_kind": kind})
    optimizer = build_optimizers(nn.Linear(1, 1), head, settings)[-1]
    for _ in range(3):
        before = head.matrix.detach().clone()
        head(torch.randn(8, DIMENSIONS), torch.randint(CLASSES, (8,))).loss.backward()
        assert head.matrix.grad is not None
        head.matrix.grad[::2] = 0
        compared = head.matrix.grad.any(dim=1)
        optimizer.step()
        optimizer.zero_grad()
        moved = (head.matrix.detach() != before).any(dim=1)
        assert moved.any() and not (moved & ~compared).any()
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in kept) == floats


@pytest.mark.parametrize("supported", [True, False])
def test_muon_moves_all_directions_of_a_matrix_alike_and_class_rows_as_adam_does(
    monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    seen, norm = list[torch.dtype](), torch.Tensor.norm

    def record_type(tensor: torch.Tensor, *given: Any, **named: Any) -> Any:
        seen.append(tensor.dtype)
        return norm(tensor, *given, **named)

    monkeypatch.setattr(torch.Tensor, "norm", record_type)
    torch.manual_seed(0)
    rate, rows_rate = 0.01, 0.02
    linear, head = nn.Linear(32, 16, bias=False), ArcFaceSettings().build(DIMENSIONS, 8, 0)
    settings = OptimizerSettings(kind="muon", class_kind="adam", learning_rate=rate, class_learning_rate=rows_rate)
    optimizers = build_optimizers(linear, head, settings)
    matrix, rows = linear.weight.detach().clone(), head.matrix.detach().clone()
    linear.weight.grad, head.matrix.grad = torch.randn(16, 32), torch.randn(8, DIMENSIONS)
    for optimizer in optimizers:
        optimizer.step()
    assert (torch.bfloat16 in seen) is supported  # in Newton-Schulz steps
    values = torch.linalg.svdvals(linear.weight.detach() - matrix)
    assert values.max() / values.min() < 1.6  # those of the gradient: 1 to 6
    torch.testing.assert_close(values.mean().item(), 0.2 * 32**0.5 * rate, rtol=0.2, atol=0)
    torch.testing.assert_close(head.matrix.detach() - rows, -rows_rate * head.matrix.grad.sign(), rtol=1e-3, atol=1e-6)


def test_without_a_limit_gradients_stay_as_they_are(images: ImageSet, tmp_path: Path) -> None:
    def train(clip_norm: float | None) -> dict[str, torch.Tensor]:
        optimizer = {"kind": "sgd", "learning_rate": 0.1, "clip_norm": clip_norm}
        path = trainings.train(
            trainings.make_settings(optimizer=optimizer), images.select(images.ids[:8]), tmp_path / str(clip_norm)
        )
        return load_descriptor(path).descriptor.state_dict()

    free, wide, narrow = train(None), train(1e9), train(0.1)
    assert all(torch.equal(free[name], wide[name]) for name in free)
    assert not all(torch.equal(free[name], narrow[name]) for name in free)


@pytest.mark.parametrize(("device", "precision", "fused"), [("cuda", "bf16", True), ("cuda", "16", None), ("cpu", "32", None)])
def test_adam_makes_its_step_in_one_kernel_on_a_gpu(device: str, precision: str, fused: bool | None) -> None:
    """Not with a gradient scaler, which Fabric cannot clip with. The CPU's fused Adam stands in: the same weights come out."""
    fabric = SimpleNamespace(device=torch.device(device), to_device=lambda module: module, setup_optimizers=lambda one: one)
    descriptor, settings = Descriptor(SMALL), trainings.make_settings(precision=precision)
    objective = settings.objective.build(16, 8, 0)
    trainer = Trainer(settings, ImageSet([], []), ImageSet([], []), Path(), Path(), seed=0)
    trainer.fabric, trainer.descriptor = fabric, descriptor  # type: ignore[assignment]
    trainer.prepare(objective)
    (optimizer,) = trainer.optimizers
    assert optimizer.param_groups[0]["fused"] is fused
    matrix = objective.class_matrix()
    assert matrix is not None
    before, matrix.parameter.grad = matrix.parameter.detach().clone(), torch.randn(8, 16)
    optimizer.step()
    torch.testing.assert_close(matrix.parameter.detach(), before - 1e-3 * matrix.parameter.grad.sign(), atol=1e-6, rtol=0)
