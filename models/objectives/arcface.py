"""ArcFace over many classes: the softmax is computed chunk by chunk, so that the logits [n, C] never exist whole.

J. Deng et al., ArcFace (2019): the logit of the right class is s · cos(θ + m), with the usual monotone continuation
s · (cos θ − m sin m) past θ > π − m; all others are s · cos θ.
"""

import math
from typing import Any

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
            own, others = _ClassSums.apply(embeddings.float(), self.matrix, labels, self.settings.scale, self.settings.chunk)
            target = angular_margin(own, self.settings.margin)
            loss = functional.softplus(others - self.settings.scale * target).mean()
        return ObjectiveOutput(loss, {"cosine_to_own_class": float(own.detach().mean())})


def angular_margin(cosine: Tensor, margin: float) -> Tensor:
    """cos(θ + m) of cos θ [n]; past θ > π − m its monotone continuation cos θ − m sin m."""
    cosine = cosine.clamp(-1 + 1e-7, 1 - 1e-7)
    shifted = cosine * math.cos(margin) - (1 - cosine * cosine).sqrt() * math.sin(margin)
    return torch.where(cosine > math.cos(math.pi - margin), shifted, cosine - margin * math.sin(margin))


class _ClassSums(torch.autograd.Function):
    """cos θ of the own class [n] and log Σ_{j ≠ own} exp(s cos θ_j) [n], in chunks that are computed again in backward.

    A row w counts as w / ‖w‖, so its gradient loses the part along w. Beside the matrix only one chunk exists at a time.
    """

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, matrix: Tensor, labels: Tensor, scale: float, chunk: int) -> tuple[Tensor, Tensor]:
        lengths = matrix.norm(dim=1).clamp_(min=1e-12)
        own = (embeddings * matrix[labels]).sum(dim=1) / lengths[labels]
        total = torch.full((len(embeddings),), -torch.inf, device=embeddings.device)
        for start in range(0, len(matrix), chunk):
            logits = _other_logits(embeddings, matrix, lengths, labels, scale, start, chunk)
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
        ctx.save_for_backward(embeddings, matrix, lengths, labels, total)
        ctx.scale, ctx.chunk = scale, chunk
        return own, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_own, to_total = gradients
        embeddings, matrix, lengths, labels, total = ctx.saved_tensors
        own_rows = matrix[labels] / lengths[labels, None]
        to_embeddings, to_matrix = to_own[:, None] * own_rows, torch.empty_like(matrix)
        for start in range(0, len(matrix), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            weights = _other_logits(embeddings, matrix, lengths, labels, ctx.scale, start, ctx.chunk)
            weights = weights.sub_(total[:, None]).exp_().mul_(to_total[:, None] * ctx.scale)
            unit = matrix[rows] / lengths[rows, None]
            to_embeddings.addmm_(weights, unit)
            to_matrix[rows] = _without_part_along(weights.T @ embeddings, unit) / lengths[rows, None]
        to_rows = _without_part_along(to_own[:, None] * embeddings, own_rows) / lengths[labels, None]
        to_matrix.index_add_(0, labels, to_rows)
        return to_embeddings, to_matrix, None, None, None


def _without_part_along(gradient: Tensor, unit: Tensor) -> Tensor:
    """The gradient of w / ‖w‖, passed on to w up to 1 / ‖w‖."""
    return gradient - (gradient * unit).sum(dim=1, keepdim=True) * unit


def _other_logits(
    embeddings: Tensor, matrix: Tensor, lengths: Tensor, labels: Tensor, scale: float, start: int, chunk: int
) -> Tensor:
    """s · cos θ of one chunk of classes [n, ≤ chunk]; −∞ at each image's own class."""
    part = matrix[start : start + chunk]
    logits = (embeddings @ part.T).mul_(scale / lengths[start : start + chunk])
    inside = torch.nonzero((labels >= start) & (labels < start + len(part))).squeeze(1)
    logits[inside, labels[inside] - start] = -torch.inf
    return logits
