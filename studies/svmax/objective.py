"""SVMax: maximising the mean singular value of a batch's embeddings prevents collapse; and the N-pair loss.

The N-pair loss is our own, because that of pytorch-metric-learning does not use b − 2 negatives.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.models.distributed import gather_rows
from image_copies.models.objectives.base import ClassMatrix, Objective, ObjectiveOutput
from image_copies.models.objectives.pairs import find_positive_pairs
from image_copies.models.training.collapse import describe_spread, singular_bounds


class NPairLoss(nn.Module):
    """The mean over all positive pairs (a, p) of log(1 + Σ_n exp((a·n − a·p) / τ)), n of other classes.

    At τ = `temperature` = 1 this is SVMax's equation A1; at others, of unit vectors, InfoNCE (SSCD, 2022, equation 1).
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Compute the scalar loss of vectors [n, d] with labels [n].

        Raises:
            UserError: No two vectors share a label.
        """
        products = vectors @ vectors.T / self.temperature
        anchors, positives = find_positive_pairs(labels)
        negatives = products.masked_fill(labels[:, None] == labels[None], -torch.inf)[anchors]
        own = products[anchors, positives]
        return (torch.cat([own[:, None], negatives], 1).logsumexp(1) - own).mean()


def spread_out_penalty(rows: Tensor, labels: Tensor) -> Tensor:
    """Return M₁² + max(0, M₂ − 1/d): first and second moment of the products of rows [b, d] of different classes [b].

    The formula assumes unit rows: those that are spread evenly over the sphere have M₁ = 0 and M₂ = 1/d. 0 for one class.
    """
    with torch.autocast(rows.device.type, enabled=False):
        different = labels[:, None] != labels[None]
        products = (rows.float() @ rows.float().T)[different]
        pairs = max(1, len(products))
        first = products.sum() / pairs
        second = products.square().sum() / pairs
        return first.square() + (second - 1 / rows.shape[1]).clamp(min=0)


class Svmax(Objective):
    """An objective with the SVMax regulariser.

    Bounded form: loss + λ exp((U − s)/(U − L)), by default of unit rows; unbounded form: loss − λ s, by default of raw rows
    (SVMax, equations A8 and A7); or the spread-out regulariser in its place. The mean singular value s of the whole batch's unit
    rows [b, d] and its bounds L and U are logged for every batch. If the objective takes the local batch, the other processes'
    rows are gathered to compute s. The arguments are those of `SvmaxSettings`.
    """

    logs_spread = True

    def __init__(self, objective: Objective, *, form: str, weight: float, of_unit_rows: bool) -> None:
        super().__init__()
        self.objective = objective
        self.form, self.weight, self.of_unit_rows = form, weight, of_unit_rows
        self.takes_local_batch = objective.takes_local_batch

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the regularised loss; logs s, L and U besides the objective's own figures."""
        self.objective.measures = self.measures
        output = self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        rows = self.gather(embeddings)
        lower, upper = singular_bounds(*rows.shape)
        logs = output.logs | describe_spread(rows.detach())
        chosen = functional.normalize(rows) if self.of_unit_rows else rows
        if self.form == "spread_out":
            penalty = spread_out_penalty(chosen, self.gather(labels))
        else:
            s = mean_singular_value(chosen)
            penalty = torch.exp((upper - s) / (upper - lower)) if self.form == "bounded" else -s
        return replace(output, loss=output.loss + self.weight * penalty, logs=logs)

    def class_matrix(self) -> ClassMatrix | None:
        """Return the objective's class matrix."""
        return self.objective.class_matrix()

    def linear_classifier(self) -> nn.Linear | None:
        """Return the objective's classifier."""
        return self.objective.linear_classifier()

    def parameter_rates(self) -> dict[str, float]:
        """Return the objective's learning rates, under this module's parameter names."""
        return {f"objective.{name}": rate for name, rate in self.objective.parameter_rates().items()}

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows [b, …] of the whole batch, of which the objective may receive this process's part."""
        return gather_rows(rows) if self.takes_local_batch else rows


def mean_singular_value(matrix: Tensor) -> Tensor:
    """Return the mean of the min(b, d) singular values of a matrix [b, d], a scalar with a finite gradient even on collapse."""
    nuclear_norm: Tensor = _NuclearNorm.apply(matrix)  # type: ignore[no-untyped-call]  # torch's apply has no types
    return nuclear_norm / min(matrix.shape)


class _NuclearNorm(torch.autograd.Function):
    """The sum of the singular values; its gradient is the smallest subgradient, U Vᵀ over the numerically nonzero ones.

    The gradient of torch.linalg.svdvals uses an arbitrary basis of the null space, which would push a collapsed batch in random
    directions. The values are computed from the eigenvalues s² of the smaller Gram matrix, several times faster than an SVD;
    float64 compensates for the squaring.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        rows = (matrix if len(matrix) <= matrix.shape[1] else matrix.T).double()
        if not ctx.needs_input_grad[0]:
            squares: Tensor = torch.linalg.eigvalsh(rows @ rows.T)
            return squares.clamp(min=0).sqrt().sum().to(matrix)
        squares, left = torch.linalg.eigh(rows @ rows.T)
        values: Tensor = squares.clamp(min=0).sqrt()
        kept = values > values[-1] * max(matrix.shape) * torch.finfo(torch.float32).eps
        direction = (left * torch.where(kept, 1 / values, 0.0)) @ (left.T @ rows)
        ctx.save_for_backward((direction if len(matrix) <= matrix.shape[1] else direction.T).to(matrix))
        return values.sum().to(matrix)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        direction: Tensor = ctx.saved_tensors[0]
        return gradients[0] * direction
