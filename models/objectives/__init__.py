"""What a descriptor learns from.

An objective is an nn.Module: `forward(embeddings [n, d], labels [n], instances [n]) -> ObjectiveOutput`. The embeddings are as
the descriptor's last layer gives them, of any length; labels are class indices in the fixed class order; instances tell which
image an embedding was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings are read without torch
    from torch import Tensor


@dataclass(frozen=True)
class ObjectiveOutput:
    """The loss to minimise and figures to log, all without dimensions."""

    loss: Tensor
    logs: dict[str, Tensor | float] = field(default_factory=dict)
