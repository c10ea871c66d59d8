"""An exponential moving average of a network's weights, which often embeds better than the last weights do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """The moving average of a network's weights and batch statistics over the steps of a stage.

    After step t = 1, 2, … of a stage average ← a · average + (1 − a) · weights, a = min(decay, (1 + t) / (10 + t)): the rise
    lets the first steps, from which training moves away fastest, be forgotten. Counters are those of the weights.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay, self.steps = network, decay, 0
        self.weights = {name: value.detach().clone() for name, value in network.state_dict().items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after a step into the average."""
        self.steps += 1
        share = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                self.weights[name].lerp_(value, share)
            else:
                self.weights[name].copy_(value)

    @torch.no_grad()
    def apply(self) -> None:
        """Give the network the average for good."""
        for name, value in self.network.state_dict().items():
            value.copy_(self.weights[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the network the average within the block; afterwards it learns on with its own weights."""
        own = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        self.apply()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in self.network.state_dict().items():
                    value.copy_(own[name])

    def state(self) -> dict[str, Any]:
        """What changes while training goes on."""
        return {"steps": self.steps, "weights": self.weights}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned."""
        self.steps = int(state["steps"])
        saved: dict[str, Tensor] = state["weights"]
        for name, value in self.weights.items():
            value.copy_(saved[name])
