"""SVMax: maximising the mean singular value of a batch's embeddings prevents collapse (A. Taha et al., SVMax)."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.data.errors import UserError

from ..distributed import gather_rows
from .base import ClassMatrix, Objective, ObjectiveOutput
from .settings import SvmaxSettings


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
    rows [b, d] and its bounds L and U are logged for every regularised batch; without settings the output has the `rows` of which
    they may be measured. If the objective takes the local batch, the other processes' rows are gathered to compute s.
    """

    def __init__(self, objective: Objective, settings: SvmaxSettings | None = None) -> None:
        super().__init__()
        self.objective, self.settings = objective, settings
        self.takes_local_batch = objective.takes_local_batch

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the regularised loss; logs s, L and U besides the objective's own figures.

        Raises:
            UserError: The batch has one image, or the embeddings have one dimension.
        """
        self.objective.measures = self.measures
        output = self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        if self.settings is None:
            return replace(output, rows=embeddings.detach())
        rows = self.gather(embeddings)
        lower, upper = singular_bounds(*rows.shape)
        of_unit_rows = self.settings.of_unit_rows
        learns = of_unit_rows and self.settings.form != "spread_out"
        with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
            mean = mean_singular_value(functional.normalize(rows))
        if self.settings.form == "spread_out":
            penalty = spread_out_penalty(
                functional.normalize(rows) if of_unit_rows else rows, self.gather(labels)
            )
        else:
            s = mean if of_unit_rows else mean_singular_value(rows)
            penalty = torch.exp((upper - s) / (upper - lower)) if self.settings.form == "bounded" else -s
        return replace(
            output,
            loss=output.loss + self.settings.weight * penalty,
            logs=output.logs | describe_spread(rows, mean),
        )

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


def describe_spread(rows: Tensor, mean: Tensor | None = None) -> dict[str, Tensor | float]:
    """Return the logged figures of rows [b, d]: s of the unit rows, which may be known already as `mean`, L and U."""
    lower, upper = singular_bounds(*rows.shape)
    if mean is None:
        mean = mean_singular_value(functional.normalize(rows))
    return {"mean_singular_value": mean.detach(), "singular_lower": lower, "singular_upper": upper}


def singular_bounds(batch: int, dimensions: int) -> tuple[float, float]:
    """Return the bounds L = √b / k and U = √(b / k), k = min(b, d), of the mean singular value of unit rows [b, d].

    Raises:
        UserError: The batch has one image, or the vectors have one dimension.
    """
    if batch < 2 or dimensions < 2:
        raise UserError(
            f"SVMax needs batches of at least two images and vectors of at least two dimensions; got {batch} × {dimensions}. "
            "Raise batch_size or dimensions."
        )
    k = min(batch, dimensions)
    return math.sqrt(batch) / k, math.sqrt(batch / k)


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
