"""Optimisers and learning-rate schedules, all from torch."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from models.settings import OptimizerSettings, SchedulerSettings


def build_optimizer(
    descriptor: nn.Module, objective: nn.Module, settings: OptimizerSettings, factor: float = 1.0
) -> torch.optim.Optimizer:
    """Adam or SGD over the descriptor and the objective, whose parameters may learn at their own rate."""
    rate = settings.learning_rate * factor
    own_rate = (settings.class_learning_rate or settings.learning_rate) * factor
    groups = [
        {"params": _trainable(descriptor.parameters()), "lr": rate, "weight_decay": settings.weight_decay},
        {"params": _trainable(objective.parameters()), "lr": own_rate, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.kind == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum)
    return torch.optim.Adam(groups)


class EpochSchedule:
    """Scales the optimiser's learning rates: within an epoch by the share of it that is done, after it by its loss."""

    def __init__(self, optimizer: torch.optim.Optimizer, settings: SchedulerSettings) -> None:
        self.optimizer, self.settings = optimizer, settings
        self.start = [float(group["lr"]) for group in optimizer.param_groups]
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=settings.factor, patience=settings.patience)

    def before_step(self, epochs_done: float) -> None:
        """warmup_cosine (paper: 4 warm-up epochs, 100 of decay, floor 1e-3 of the start)."""
        if self.settings.kind == "warmup_cosine":
            share = warmup_cosine(epochs_done, self.settings)
            for group, rate in zip(self.optimizer.param_groups, self.start, strict=True):
                group["lr"] = rate * share

    def after_epoch(self, loss: float) -> None:
        """plateau (paper: factor 0.9, patience 2)."""
        if self.settings.kind == "plateau":
            self.plateau.step(loss)

    def state_dict(self) -> dict[str, object]:
        return {"plateau": self.plateau.state_dict(), "start": self.start}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.plateau.load_state_dict(state["plateau"])  # type: ignore[arg-type]
        self.start = list(state["start"])  # type: ignore[call-overload]


def warmup_cosine(epoch: float, settings: SchedulerSettings) -> float:
    """Share of the start rate: linear rise over the warm-up, cosine down to the floor, then the floor."""
    if epoch < settings.warmup_epochs:
        return max(settings.floor, epoch / settings.warmup_epochs)
    done = min(1.0, (epoch - settings.warmup_epochs) / settings.decay_epochs)
    return settings.floor + (1 - settings.floor) * 0.5 * (1 + math.cos(math.pi * done))


def _trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]
