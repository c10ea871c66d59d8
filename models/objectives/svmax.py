"""SVMax: a large mean singular value of a batch's embedding matrix keeps its vectors apart (A. Taha et al., SVMax)."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from data.errors import UserError
from models.distributed import gather_rows
from models.objectives.base import ClassMatrix, Objective, ObjectiveOutput
from models.objectives.settings import SvmaxSettings


class Svmax(Objective):
    """`objective` with the regulariser that `settings` ask for.

    Bounded: loss + λ exp((U − s)/(U − L)), of unit rows unless the settings say otherwise; unbounded: loss − λ s, of rows as they
    are unless they do (SVMax, equations A8 and A7). Without settings the loss is the objective's own.

    The mean singular value s of the whole batch's unit rows [b, d] and its bounds L and U are logged with every batch that
    `measures` asks for, and with every batch that they regularise; where the
    objective takes this process's part of a batch, the other parts are gathered to compute s.
    """

    def __init__(self, objective: Objective, settings: SvmaxSettings | None = None) -> None:
        super().__init__()
        self.objective, self.settings = objective, settings
        self.takes_local_batch = objective.takes_local_batch

    def class_matrix(self) -> ClassMatrix | None:
        """The objective's."""
        return self.objective.class_matrix()

    def linear_classifier(self) -> nn.Linear | None:
        """The objective's."""
        return self.objective.linear_classifier()

    def parameter_rates(self) -> dict[str, float]:
        """The objective's."""
        return {f"objective.{name}": rate for name, rate in self.objective.parameter_rates().items()}

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """The objective's loss and logs with the regulariser's. UserError: a batch of one image, or one dimension."""
        if self.settings is None and not self.measures:  # an eigenvalue problem for a log alone
            return self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        rows = gather_rows(embeddings) if self.takes_local_batch else embeddings
        lower, upper = singular_bounds(*rows.shape)
        output = self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        loss = output.loss
        of_unit_rows = self.settings is not None and self.settings.of_unit_rows
        with torch.set_grad_enabled(of_unit_rows and torch.is_grad_enabled()):
            mean = mean_singular_value(functional.normalize(rows))
        if self.settings is not None:
            s = mean if of_unit_rows else mean_singular_value(rows)
            bounded = self.settings.form == "bounded"
            loss = loss + self.settings.weight * (torch.exp((upper - s) / (upper - lower)) if bounded else -s)
        own_logs: dict[str, Tensor | float] = {
            "mean_singular_value": mean.detach(),
            "singular_lower": lower,
            "singular_upper": upper,
        }
        return ObjectiveOutput(loss, output.logs | own_logs)


def mean_singular_value(matrix: Tensor) -> Tensor:
    """The mean of the min(b, d) singular values of [b, d], a scalar; the gradient of a collapsed batch is finite too."""
    nuclear_norm: Tensor = _NuclearNorm.apply(matrix)  # type: ignore[no-untyped-call]  # torch's apply has no types
    return nuclear_norm / min(matrix.shape)


def singular_bounds(batch: int, dimensions: int) -> tuple[float, float]:
    """L = √b / k and U = √(b / k), k = min(b, d), of the mean singular value of unit rows [b, d].

    Raises:
        UserError: A batch of one image, or vectors of one dimension.
    """
    if batch < 2 or dimensions < 2:
        raise UserError(
            f"The singular values of {batch} × {dimensions} embeddings say nothing: SVMax needs two images a batch and two "
            "dimensions at least. Make the batch larger."
        )
    k = min(batch, dimensions)
    return math.sqrt(batch) / k, math.sqrt(batch / k)


def npair_bounds(batch: int) -> tuple[float, float]:
    """Lower and upper bound of the N-pair loss of unit vectors, one positive pair of each class (SVMax, equation A2)."""
    negatives = batch - 2
    return math.log(math.exp(2) + negatives) - 2, math.log(math.exp(2) * negatives + 1)


def angular_bounds(batch: int, angle: float = 45.0) -> tuple[float, float]:
    """Lower and upper bound of the angular loss of unit vectors at an angle in degrees (SVMax, equations A5 and A6).

    The upper bound is the paper's and holds where anchor and positive agree; at 45° f reaches 6, not 4, where a·p = −1/2.
    """
    negatives, tangent = batch - 2, math.tan(math.radians(angle)) ** 2
    return math.log1p(math.exp(-10 * tangent - 2) * negatives), math.log1p(math.exp(6 * tangent - 2) * negatives)


class _NuclearNorm(torch.autograd.Function):
    """Σ of the singular values; the gradient is U Vᵀ over the singular values above rounding, the smallest subgradient.

    svdvals' own gradient takes an arbitrary basis of the null space, so that a collapsed batch would be pushed at random.
    Computed from the eigenvalues s² of the smaller Gram matrix, several times faster than an SVD; float64 makes up for the
    squares.
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
