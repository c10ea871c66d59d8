"""The interface of all objectives, through which training learns what differs between them."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ObjectiveOutput:
    """The result of an objective for one batch."""

    loss: Tensor
    # scalars by name; each becomes a column of the learning curve
    logs: dict[str, Tensor | float] = field(default_factory=dict)
    rows: Tensor | None = None  # [n, d], embeddings of which more is to be measured where the batch is


@dataclass(frozen=True)
class ClassMatrix:
    """The part of a class matrix [C, d] that this process holds; drip training rebuilds it at the start of a stage."""

    parameter: nn.Parameter  # this process's prototypes [len(classes), d], of any norm
    classes: range  # the consecutive class indices of its rows

    @torch.no_grad()
    def set_prototypes(self, classes: Tensor, prototypes: Tensor) -> None:
        """Replace the rows of `classes` int64 [m], all held by this process, by `prototypes` [m, d]."""
        self.parameter[classes.to(self.parameter.device) - self.classes.start] = prototypes.to(
            self.parameter
        )


class Objective(nn.Module):
    """Maps a batch of embeddings to a loss; subclasses implement `compute_loss` and override what differs."""

    # what `forward` receives when several processes train. False: the gathered batch of all processes, the same on each. True:
    # this process's own part, and the objective communicates by itself
    takes_local_batch: bool = False
    # whether the next batch computes figures that are only logged and make a GPU synchronise
    measures: bool = True
    # whether every batch logs the spread of its rows
    logs_spread: bool = False

    if TYPE_CHECKING:  # nn.Module's own call is untyped

        def __call__(
            self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None
        ) -> ObjectiveOutput:
            """As forward."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None
    ) -> ObjectiveOutput:
        """Compute the loss of a batch in float32, whatever autocast surrounds it.

        Args:
            embeddings: [n, d], the raw output of the descriptor's last layer, of any norm.
            labels: int64 [n], class indices 0…C−1.
            instances: int64 [n], index of the image that each embedding comes from; None if all images are different.

        Raises:
            UserError: The batch does not contain what the objective compares, such as two images of one class.
        """
        device = embeddings.device.type
        product_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        if instances is None:
            instances = torch.arange(len(labels), device=labels.device)
        with torch.autocast(device, enabled=False):
            output = self.compute_loss(embeddings.float(), labels, instances, product_dtype)
        return replace(output, rows=None if self.logs_spread else embeddings.detach().float())

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the loss with autocast disabled; called by `forward`, with float32 embeddings.

        Large products of matrices may use `product_dtype`, the precision of the autocast around `forward`; None without one.

        Raises:
            UserError: As for `forward`.
        """
        raise NotImplementedError

    def class_matrix(self) -> ClassMatrix | None:
        """Return the class matrix, which drip training rebuilds and processes share; None if there is none."""
        return None

    def linear_classifier(self) -> nn.Linear | None:
        """Return the linear classifier of raw embeddings, saved next to the last checkpoint; None if there is none."""
        return None

    def parameter_rates(self) -> dict[str, float]:
        """Return the learning rates of parameters that have their own, by their name in `named_parameters`."""
        return {}


def seeded_generator(seed: int, number: int, device: torch.device | None = None) -> torch.Generator:
    """Return a generator on `device` (None: CPU) for draw `number` of a seed, so that a resumed training repeats none."""
    return torch.Generator(device or "cpu").manual_seed(seed * 1_000_003 + number)
