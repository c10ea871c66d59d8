"""What a descriptor learns from.

An objective is an nn.Module: `forward(embeddings [n, d], labels [n]) -> ObjectiveOutput`. The embeddings are unit length,
the labels are class indices in the fixed class order. An objective with a class matrix offers `set_classes(matrix [C, d])`.
"""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class ObjectiveOutput:
    """The loss to minimise (mean over the batch) and figures to log."""

    loss: Tensor
    logs: dict[str, float] = field(default_factory=dict)
