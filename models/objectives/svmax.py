"""SVMax: a large mean singular value of a batch's embedding matrix keeps its vectors apart."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from data.errors import UserError
from models.objectives import ObjectiveOutput
from models.objectives.arcface import ArcFace
from models.objectives.settings import SvmaxSettings
from models.objectives.sharding import gathered


class Svmax(nn.Module):
    """`objective` with the regulariser that `settings` ask for: loss + λ exp((U − s)/(U − L)) on unit rows, or loss − λ s on
    rows as they are. Without settings the loss is the objective's own; s of the unit rows [b, d] and its bounds L, U are logged
    always. ArcFace is given this process's part of a batch; s is that of the whole batch there too. Raises UserError for a batch
    of one.
    """

    def __init__(self, objective: nn.Module, settings: SvmaxSettings | None = None) -> None:
        super().__init__()
        self.objective, self.settings = objective, settings

    def parameter_rates(self) -> dict[str, float]:
        """Parameters with a learning rate of their own."""
        rates: dict[str, float] = getattr(self.objective, "parameter_rates", dict)()
        return {f"objective.{name}": rate for name, rate in rates.items()}

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        rows = gathered(embeddings) if isinstance(self.objective, ArcFace) else embeddings
        lower, upper = singular_bounds(*rows.shape)
        output = self.objective(embeddings, labels, instances)
        loss = output.loss
        with torch.autocast(embeddings.device.type, enabled=False):
            rows = rows.float()
            bounded = self.settings is not None and self.settings.form == "bounded"
            with torch.set_grad_enabled(bounded and torch.is_grad_enabled()):
                mean = mean_singular_value(functional.normalize(rows))
            if self.settings is not None and bounded:
                loss = loss + self.settings.weight * torch.exp((upper - mean) / (upper - lower))
            elif self.settings is not None:
                loss = loss - self.settings.weight * mean_singular_value(rows)
        logs = {"mean_singular_value": mean.detach(), "singular_lower": lower, "singular_upper": upper}
        return ObjectiveOutput(loss, output.logs | logs)


def mean_singular_value(matrix: Tensor) -> Tensor:
    """The mean of the min(b, d) singular values of [b, d]: a collapsed batch has a finite gradient too."""
    nuclear: Tensor = _NuclearNorm.apply(matrix)  # type: ignore[no-untyped-call]
    return nuclear / min(matrix.shape)


def singular_bounds(batch: int, dimensions: int) -> tuple[float, float]:
    """L = √b / k and U = √(b / k), k = min(b, d), of the mean singular value of unit rows [b, d]."""
    if batch < 2 or dimensions < 2:
        raise UserError(
            f"The singular values of {batch} × {dimensions} embeddings say nothing: SVMax needs two images a batch and two "
            "dimensions at least. Make the batch larger."
        )
    k = min(batch, dimensions)
    return math.sqrt(batch) / k, math.sqrt(batch / k)


def npair_bounds(batch: int) -> tuple[float, float]:
    """Of the N-pair loss of unit vectors with one positive pair of each class (equation A2)."""
    negatives = batch - 2
    return math.log(math.exp(2) + negatives) - 2, math.log(math.exp(2) * negatives + 1)


def angular_bounds(batch: int, angle: float = 45.0) -> tuple[float, float]:
    """Of the angular loss of unit vectors at an angle in degrees (equations A5, A6).

    The upper one is the paper's and holds where anchor and positive agree; at 45° f reaches 6, not 4, where a·p = −1/2.
    """
    negatives, tangent = batch - 2, math.tan(math.radians(angle)) ** 2
    return math.log1p(math.exp(-10 * tangent - 2) * negatives), math.log1p(math.exp(6 * tangent - 2) * negatives)


class _NuclearNorm(torch.autograd.Function):
    """Σ of singular values; the gradient is U Vᵀ over the singular values above rounding, the smallest subgradient.

    svdvals' own gradient takes an arbitrary basis of the null space, so that a collapsed batch would be pushed at random. From
    the eigenvalues s² of the smaller Gram matrix, several times faster than by svd; float64 makes up for the squares.
    """

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, matrix: Tensor) -> Tensor:
        rows = (matrix if len(matrix) <= matrix.shape[1] else matrix.T).double()
        if not ctx.needs_input_grad[0]:  # type: ignore[attr-defined]
            squares: Tensor = torch.linalg.eigvalsh(rows @ rows.T)
            return squares.clamp(min=0).sqrt().sum().to(matrix)
        squares, left = torch.linalg.eigh(rows @ rows.T)
        values: Tensor = squares.clamp(min=0).sqrt()
        kept = values > values[-1] * max(matrix.shape) * torch.finfo(torch.float32).eps
        direction = (left * torch.where(kept, 1 / values, 0.0)) @ (left.T @ rows)
        ctx.save_for_backward((direction if len(matrix) <= matrix.shape[1] else direction.T).to(matrix))
        return values.sum().to(matrix)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:
        direction: Tensor
        (direction,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient * direction
