"""The contract that every objective keeps, so that training asks it instead of looking at its type."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ObjectiveOutput:
    """What one batch gives.

    Attributes:
        loss: Scalar to minimise, float32.
        logs: Scalars to log, by name; each becomes a column of the learning curve.
    """

    loss: Tensor
    logs: dict[str, Tensor | float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassMatrix:
    """The part of a class matrix [C, d] that this process holds; drip training rebuilds it at the start of a stage.

    Attributes:
        parameter: Prototypes [len(classes), d] of this process, of any length.
        classes: Indices of the classes that they stand for, consecutive.
    """

    parameter: nn.Parameter
    classes: range

    @torch.no_grad()
    def set_prototypes(self, classes: Tensor, prototypes: Tensor) -> None:
        """Replace the rows of `classes` [m] by `prototypes` [m, d]; this process must hold all of them."""
        self.parameter[classes.to(self.parameter.device) - self.classes.start] = prototypes.to(self.parameter)


class Objective(nn.Module):
    """Maps a batch of embeddings to a loss; subclasses fill `compute_loss` and override the answers that differ for them.

    `takes_local_batch` says what `forward` is given where several processes train: False, the batch of all processes,
    the same on each; True, this process's own part, from which the objective exchanges what it needs.
    """

    takes_local_batch: bool = False
    measures: bool = True  # whether figures that are logged only, and make a GPU wait, are computed for the next batch

    if TYPE_CHECKING:  # nn.Module's own call is untyped

        def __call__(self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None) -> ObjectiveOutput:
            """As forward."""

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None) -> ObjectiveOutput:
        """The loss of a batch, in float32 whatever the autocast around it.

        Args:
            embeddings: [n, d], as the descriptor's last layer gives them, of any length.
            labels: [n], class indices 0 … C − 1.
            instances: [n], which image each embedding was made from; without it, each from an image of its own.

        Raises:
            UserError: The batch lacks what the objective compares, such as two images of one class.
        """
        device = embeddings.device.type
        product_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        if instances is None:
            instances = torch.arange(len(labels), device=labels.device)
        with torch.autocast(device, enabled=False):
            return self.compute_loss(embeddings.float(), labels, instances, product_dtype)

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """As `forward`, on embeddings [n, d] float32 with autocast off.

        product_dtype: The precision of the autocast around `forward`, None where there was none; large matrix products
        may use it.
        """
        raise NotImplementedError

    def class_matrix(self) -> ClassMatrix | None:
        """The class matrix that drip training rebuilds and processes share; None where there is none."""
        return None

    def linear_classifier(self) -> nn.Linear | None:
        """The classifier of raw embeddings, kept beside the last checkpoint; None where there is none."""
        return None

    def parameter_rates(self) -> dict[str, float]:
        """Learning rates of parameters that have their own, by the name in `named_parameters`."""
        return {}


def seeded_generator(seed: int, number: int, device: torch.device | None = None) -> torch.Generator:
    """A generator on `device` (CPU without one) for the draw `number` of a seed, so that a resumed training repeats no draw."""
    return torch.Generator(device or "cpu").manual_seed(seed * 1_000_003 + number)
