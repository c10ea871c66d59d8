"""ArcFace over many classes: the softmax is computed chunk by chunk, so that the logits [n, C] never exist whole.

J. Deng et al., ArcFace (2019): the logit of the right class is s · cos(θ + m), with the usual monotone continuation
s · (cos θ − m sin m) past θ > π − m; all others are s · cos θ.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.objectives import ObjectiveOutput
from models.settings import ArcFaceSettings


class ArcFace(nn.Module):
    """Cross entropy with an additive angular margin over `classes` classes; `matrix` [classes, d] holds their centroids."""

    def __init__(self, dimensions: int, classes: int, settings: ArcFaceSettings) -> None:
        super().__init__()
        self.settings = settings
        self.matrix = nn.Parameter(functional.normalize(torch.randn(classes, dimensions)))

    @torch.no_grad()
    def set_classes(self, matrix: Tensor) -> None:
        """Replace the whole class matrix [classes, d]."""
        self.matrix.copy_(matrix)

    def forward(self, embeddings: Tensor, labels: Tensor) -> ObjectiveOutput:
        with torch.autocast(embeddings.device.type, enabled=False):
            embeddings = embeddings.float()
            lengths = self.matrix.norm(dim=1, keepdim=True).clamp(min=1e-12)
            own = (embeddings * functional.embedding(labels, self.matrix) / lengths[labels]).sum(dim=1)
            target = angular_margin(own, self.settings.margin)
            others = log_sum_exp_of_others(embeddings, self.matrix, lengths.squeeze(1), labels, self.settings)
            loss = functional.softplus(others - self.settings.scale * target).mean()
        return ObjectiveOutput(loss, {"cosine_to_own_class": float(own.detach().mean())})


def angular_margin(cosine: Tensor, margin: float) -> Tensor:
    """cos(θ + m) of cos θ [n]; past θ > π − m its monotone continuation cos θ − m sin m."""
    cosine = cosine.clamp(-1 + 1e-7, 1 - 1e-7)
    shifted = cosine * math.cos(margin) - (1 - cosine * cosine).sqrt() * math.sin(margin)
    return torch.where(cosine > math.cos(math.pi - margin), shifted, cosine - margin * math.sin(margin))


def log_sum_exp_of_others(
    embeddings: Tensor, matrix: Tensor, lengths: Tensor, labels: Tensor, settings: ArcFaceSettings
) -> Tensor:
    """log Σ_{j ≠ label} exp(s cos θ_j) [n], in chunks of classes that are computed again in the backward pass."""
    return _OthersLogSumExp.apply(embeddings, matrix, lengths.detach(), labels, settings.scale, settings.chunk)


class _OthersLogSumExp(torch.autograd.Function):
    """The gradient of a row w is that of w / ‖w‖: the part along w is taken away."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        embeddings: Tensor,
        matrix: Tensor,
        lengths: Tensor,
        labels: Tensor,
        scale: float,
        chunk: int,
    ) -> Tensor:
        total = torch.full((len(embeddings),), -torch.inf, device=embeddings.device)
        for start in range(0, len(matrix), chunk):
            logits = _other_logits(embeddings, matrix, lengths, labels, scale, start, chunk)
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
        ctx.save_for_backward(embeddings, matrix, lengths, labels, total)
        ctx.scale, ctx.chunk = scale, chunk  # type: ignore[attr-defined]
        return total

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        embeddings, matrix, lengths, labels, total = ctx.saved_tensors  # type: ignore[attr-defined]
        scale, chunk = ctx.scale, ctx.chunk  # type: ignore[attr-defined]
        to_embeddings, to_matrix = torch.zeros_like(embeddings), torch.empty_like(matrix)
        for start in range(0, len(matrix), chunk):
            rows = slice(start, start + chunk)
            weights = _other_logits(embeddings, matrix, lengths, labels, scale, start, chunk)
            weights = weights.sub_(total[:, None]).exp_().mul_(gradient[:, None] * scale)
            unit = matrix[rows] / lengths[rows, None]
            to_embeddings.addmm_(weights, unit)
            to_unit = weights.T @ embeddings
            along = (to_unit * unit).sum(dim=1, keepdim=True)
            to_matrix[rows] = (to_unit - along * unit) / lengths[rows, None]
        return to_embeddings, to_matrix, None, None, None, None


def _other_logits(
    embeddings: Tensor, matrix: Tensor, lengths: Tensor, labels: Tensor, scale: float, start: int, chunk: int
) -> Tensor:
    """s · cos θ of one chunk of classes [n, ≤ chunk]; −∞ at each image's own class."""
    part = matrix[start : start + chunk]
    logits = (embeddings @ part.T).mul_(scale / lengths[start : start + chunk])
    inside = torch.nonzero((labels >= start) & (labels < start + len(part))).squeeze(1)
    logits[inside, labels[inside] - start] = -torch.inf
    return logits
