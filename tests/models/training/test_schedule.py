"""Learning rates over the steps of a stage."""

import pytest
import torch

from image_copies.models.training.schedule import EpochSchedule, cosine, warmup_cosine
from image_copies.models.training.settings import SchedulerSettings

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
