"""Optimisers, learning-rate schedules, and clipping of gradients."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from timm.optim import muon
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ..device import choose_precision
from ..distributed import sum_over_processes
from ..network.descriptor import GeM
from ..objectives.base import Objective
from .settings import OptimizerSettings, SchedulerSettings

ADAM_SHARE = 0.125  # of Muon's rate: what it lets Adam move, norms and biases, bears rates of about 0.002


def build_optimizers(
    descriptor: nn.Module,
    objective: Objective,
    settings: OptimizerSettings,
    factor: float = 1.0,
    fused: bool = False,
) -> list[torch.optim.Optimizer]:
    """One optimiser over the descriptor and the objective, or, with settings.class_kind, one for each.

    An objective may name separate rates for parameters (`parameter_rates`, name → learning rate). Weights decay in the
    descriptor and in a linear classifier; GeM's exponent, a class matrix, whose length means nothing, and parameters with rates
    of their own do not. fused: Adam makes its step in one kernel, as a GPU likes it; not with a gradient scaler (precision 16).
    """
    decay = settings.weight_decay
    rate = settings.learning_rate * factor
    backbone: list[nn.Parameter] = []
    if settings.backbone_learning_rate is not None:
        backbone = [
            parameter for name, parameter in descriptor.named_parameters() if name.startswith("backbone.")
        ]
    apart = {id(parameter) for parameter in backbone}
    exponents = (
        {id(part.exponent) for part in descriptor.modules() if isinstance(part, GeM)} if decay else set()
    )
    of_descriptor = [
        _group(part, rate, share)
        for part, share in (
            (
                [
                    parameter
                    for parameter in descriptor.parameters()
                    if id(parameter) not in exponents | apart
                ],
                decay,
            ),
            ([parameter for parameter in descriptor.parameters() if id(parameter) in exponents], 0.0),
        )
    ]
    if settings.backbone_learning_rate is not None:
        of_descriptor.append(_group(backbone, settings.backbone_learning_rate * factor, decay))
    own_rates = objective.parameter_rates()
    classifier = decay if objective.linear_classifier() is not None else 0.0
    others = [parameter for name, parameter in objective.named_parameters() if name not in own_rates]
    of_objective = [
        _group(others, (settings.class_learning_rate or settings.learning_rate) * factor, classifier)
    ]
    of_objective += [
        _group([objective.get_parameter(name)], rate * factor, 0.0) for name, rate in own_rates.items()
    ]
    if settings.class_kind == "same" or not any(group["params"] for group in of_objective):
        return [_optimizer(settings.kind, of_descriptor + of_objective, settings.momentum, fused)]
    return [
        _optimizer(settings.kind, of_descriptor, settings.momentum, fused),
        _optimizer(settings.class_kind, of_objective, settings.momentum, fused),
    ]


def _group(parameters: Iterable[nn.Parameter], rate: float, weight_decay: float) -> dict[str, Any]:
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    return {"params": trainable, "lr": rate, "weight_decay": weight_decay}


def _optimizer(
    kind: str, groups: list[dict[str, Any]], momentum: float, fused: bool
) -> torch.optim.Optimizer:
    filled = [group for group in groups if group["params"]]
    if kind == "adafactor":
        return torch.optim.Adafactor(filled)
    if kind == "adam":
        return torch.optim.Adam(filled, fused=fused or None)
    if kind == "muon":
        emulated = choose_precision(filled[0]["params"][0].device, "bf16") != "bf16"
        _orthogonalize_in(torch.float32 if emulated else torch.bfloat16)
        return muon.Muon(filled, nesterov=True, fallback_lr_scale=ADAM_SHARE)
    return torch.optim.SGD(filled, momentum=momentum if kind == "sgd" else 0.0)


def _orthogonalize_in(dtype: torch.dtype) -> None:
    """Make timm's Muon compute Newton-Schulz steps in `dtype`, for which it has no argument."""
    muon.zeropower_via_newtonschulz = partial(muon.zeropower_via_newtonschulz, dtype=dtype)


class EpochSchedule:
    """Scales the learning rates of optimisers before each step and after each epoch.

    With `warmup_steps` the first steps have a fraction of the rates. With kind "constant", `fall_to` is the fraction of the
    initial rates to which they fall, by a cosine over the stage's budget; None for constant rates.
    """

    def __init__(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        settings: SchedulerSettings,
        fall_to: float | None = None,
    ) -> None:
        self.settings = settings
        self.optimizers = optimizers
        self.fall_to = fall_to
        self.warming = False
        self.start = [float(group["lr"]) for group in self._groups()]
        self.plateaus = [
            torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer, factor=settings.factor, patience=settings.patience
            )
            for optimizer in optimizers
        ]

    def before_step(self, epochs_done: float, budget_spent: float = 0.0, steps_done: int = 0) -> None:
        """Set the rates of the kinds "warmup_cosine" and "steps", or those that fall with the budget.

        Epochs done have fractions; the budget spent is 0…1. Of w warm-up steps, step k = 0, 1, … has (k + 1) / w of the rates.
        """
        before = self.warming
        warm = min(1.0, (steps_done + 1) / (self.settings.warmup_steps or 1))
        self.warming = warm < 1
        if self.settings.kind in ("warmup_cosine", "steps"):
            passed = sum(milestone <= epochs_done for milestone in self.settings.milestones)
            steps = self.settings.kind == "steps"
            share = self.settings.factor**passed if steps else warmup_cosine(epochs_done, self.settings)
            self._scale(warm * share)
        elif self.fall_to is not None:
            self._scale(warm * cosine(budget_spent, self.fall_to))
        elif self.warming or before:
            self._scale(warm)

    def after_epoch(self, loss: float) -> None:
        """Update the rates of the kind "plateau" with the mean training loss of an epoch.

        While rates warm up, no loss lowers them.
        """
        if self.settings.kind == "plateau" and not self.warming:
            for plateau in self.plateaus:
                plateau.step(loss)

    def _scale(self, share: float) -> None:
        for group, rate in zip(self._groups(), self.start, strict=True):
            group["lr"] = rate * share

    def _groups(self) -> list[dict[str, Any]]:
        """Return all parameter groups; not cached, because loading a saved state replaces them."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what training changes."""
        return {
            "plateaus": [plateau.state_dict() for plateau in self.plateaus],
            "start": self.start,
            "warming": self.warming,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for plateau, saved in zip(self.plateaus, state["plateaus"], strict=True):
            plateau.load_state_dict(saved)
        self.start = list(state["start"])
        self.warming = state["warming"]


def warmup_cosine(epoch: float, settings: SchedulerSettings) -> float:
    """Return the factor of the initial rate: linear warm-up, cosine decay to the floor, then the floor (ISC2021 paper)."""
    if epoch < settings.warmup_epochs:
        return max(settings.floor, epoch / settings.warmup_epochs)
    return cosine((epoch - settings.warmup_epochs) / settings.decay_epochs, settings.floor)


def cosine(done: float, last: float) -> float:
    """Return the cosine decay from 1 at `done` = 0 to `last` at `done` ≥ 1."""
    return last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def clip_gradients(
    parameters: Sequence[nn.Parameter], limit: float, sharded: nn.Parameter | None = None
) -> None:
    """Clip the gradients by their norm over all parameters that have one, in place; no GPU is waited for.

    Of the parameter `sharded` every process has other rows.
    """
    squares = (
        get_total_norm([each.grad for each in parameters if each.grad is not None and each is not sharded])
        ** 2
    )
    if sharded is not None and sharded.grad is not None:
        squares = squares + sum_over_processes(get_total_norm(sharded.grad) ** 2)
    clip_grads_with_norm_(parameters, limit, squares.sqrt())
