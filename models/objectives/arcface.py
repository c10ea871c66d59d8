"""ArcFace over many classes: the softmax is computed chunk by chunk, so that the logits [n, C] never exist whole; the class
matrix may lie on several processes, a part on each.

J. Deng et al., ArcFace (2019): the logit of the right class is s · cos(θ + m), with the usual monotone continuation
s · (cos θ − m sin m) past θ > π − m; all others are s · cos θ.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.objectives import ObjectiveOutput
from models.objectives.sharding import gathered, joined_log_sum, process_count, process_number, shard_rows, summed
from models.settings import ArcFaceSettings

HALF_RANGE = 4096.0  # softmax weights reach this in half precision: far from float16's end at 65,504, small ones above its start
BLOCK = 65_536  # rows of the first class matrix that are drawn together, the same for any number of processes


class ArcFace(nn.Module):
    """Cross entropy with an additive angular margin over `classes` classes; `matrix` [of this process, d] holds centroids.

    Embeddings [n, d] of any length and global labels [n] of this process's images go in; the loss, the mean over the images of
    all processes, comes out the same on each. Its gradient for the embeddings is scaled for data parallelism (see `gathered`),
    that for the process's own part of the matrix is exact. Under autocast the products of embeddings and matrix are in half
    precision, all sums in float32. With settings.negatives each step compares with a random share of the classes and the
    batch's own ones (X. An et al., Partial FC, 2021): an approximation, without correction for what is left out, so that the
    loss is lower than the exact one; its logs then hold share_of_classes, and only rows that were drawn have a gradient.
    """

    step: Tensor

    def __init__(self, dimensions: int, classes: int, settings: ArcFaceSettings, seed: int = 0) -> None:
        super().__init__()
        self.settings, self.classes, self.seed = settings, classes, seed
        self.rows = shard_rows(classes, process_number(), process_count())
        self.matrix = nn.Parameter(_drawn(self.rows, classes, dimensions, seed))
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def set_classes(self, rows: Tensor, centroids: Tensor) -> None:
        """Replace the centroids [m, d] of the global classes `rows` [m], all of which this process holds."""
        self.matrix[rows.to(self.matrix.device) - self.rows.start] = centroids.to(self.matrix)

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None) -> ObjectiveOutput:
        device = embeddings.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        with torch.autocast(device, enabled=False):
            unit = gathered(functional.normalize(embeddings.float()))
            own_part = gathered(labels) - self.rows.start  # outside 0 … rows of this process: another one's class
            matrix, own_part = self._sampled(own_part) if self.settings.negatives else (self.matrix, own_part)
            logs = {"share_of_classes": len(matrix) / max(1, len(self.matrix))} if self.settings.negatives else {}
            sums = _ClassSums.apply(unit, matrix, own_part, self.settings.scale, self.settings.chunk, half)  # type: ignore[no-untyped-call]
            own, others = sums
            target = angular_margin(own, self.settings.margin)
            loss = functional.softplus(others - self.settings.scale * target).mean()
        return ObjectiveOutput(loss, {"cosine_to_own_class": own.detach().mean(), **logs})

    def _sampled(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """A seeded share of this process's classes with the batch's own, and the labels as rows of it."""
        if self.training:
            self.step += 1
        generator = torch.Generator(labels.device).manual_seed(self.seed * 1_000_003 + int(self.step))
        count = math.ceil((self.settings.negatives or 1.0) * len(self.matrix))
        inside = (labels >= 0) & (labels < len(self.matrix))
        drawn = torch.randperm(len(self.matrix), generator=generator, device=labels.device)[:count]
        rows = torch.cat([labels[inside], drawn]).unique()
        return self.matrix.index_select(0, rows), torch.where(inside, torch.searchsorted(rows, labels.clamp(min=0)), -1)


def angular_margin(cosine: Tensor, margin: float) -> Tensor:
    """cos(θ + m) of cos θ [n]; past θ > π − m its monotone continuation cos θ − m sin m."""
    cosine = cosine.clamp(-1 + 1e-7, 1 - 1e-7)
    shifted = cosine * math.cos(margin) - (1 - cosine * cosine).sqrt() * math.sin(margin)
    return torch.where(cosine > math.cos(math.pi - margin), shifted, cosine - margin * math.sin(margin))


class _ClassSums(torch.autograd.Function):
    """cos θ of the own class [n] and log Σ_{j ≠ own} exp(s cos θ_j) [n], in chunks that are computed again in backward.

    A row w counts as w / ‖w‖, so its gradient loses the part along w. Beside the matrix only one chunk exists at a time.
    labels are rows of `matrix`; one outside it names a class that another process holds.
    """

    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, matrix: Tensor, labels: Tensor, scale: float, chunk: int, half: torch.dtype | None
    ) -> tuple[Tensor, Tensor]:
        lengths = matrix.norm(dim=1).clamp_(min=1e-12)
        here = torch.nonzero((labels >= 0) & (labels < len(matrix))).squeeze(1)
        rows = labels[here]
        own = torch.zeros(len(embeddings), device=embeddings.device)
        own[here] = (embeddings[here] * matrix[rows]).sum(dim=1) / lengths[rows]
        total = torch.full((len(embeddings),), -torch.inf, device=embeddings.device)
        for start in range(0, len(matrix), chunk):
            logits = _other_logits(embeddings, matrix, lengths, here, rows, scale, start, chunk, half)
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
        own, total = summed(own), joined_log_sum(total)
        ctx.save_for_backward(embeddings, matrix, lengths, here, rows, total)
        ctx.scale, ctx.chunk, ctx.half = scale, chunk, half
        return own, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_own, to_total = gradients
        embeddings, matrix, lengths, here, rows, total = ctx.saved_tensors
        own_rows = matrix[rows] / lengths[rows, None]
        to_embeddings, to_matrix = torch.zeros_like(embeddings), torch.empty_like(matrix)
        largest = to_total.abs().max().clamp(min=torch.finfo(torch.float32).tiny) * (ctx.scale / HALF_RANGE)
        total = total.clamp(min=torch.finfo(torch.float32).min)  # where no other class was drawn
        for start in range(0, len(matrix), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            weights = _other_logits(embeddings, matrix, lengths, here, rows, ctx.scale, start, ctx.chunk, ctx.half)
            weights = weights.sub_(total[:, None]).exp_().mul_((to_total * ctx.scale / largest)[:, None])
            unit = matrix[part] / lengths[part, None]
            to_embeddings += _product(weights, unit, ctx.half)
            to_unit = _product(weights.T, embeddings, ctx.half)
            to_matrix[part] = _without_part_along(to_unit, unit).mul_(largest / lengths[part, None])
        to_embeddings *= largest
        to_embeddings[here] += to_own[here, None] * own_rows
        to_rows = _without_part_along(to_own[here, None] * embeddings[here], own_rows) / lengths[rows, None]
        to_matrix.index_add_(0, rows, to_rows)
        return summed(to_embeddings), to_matrix, None, None, None, None


def _product(left: Tensor, right: Tensor, half: torch.dtype | None) -> Tensor:
    """left @ right in float32, or from half-precision factors with float32 sums."""
    if half is None:
        return left @ right
    if left.is_cuda:
        return torch.mm(left.to(half), right.to(half), out_dtype=torch.float32)
    return (left.to(half) @ right.to(half)).float()


def _without_part_along(gradient: Tensor, unit: Tensor) -> Tensor:
    """The gradient of w / ‖w‖, passed on to w up to 1 / ‖w‖; in the place of `gradient`."""
    return gradient.addcmul_(unit, torch.linalg.vecdot(gradient, unit)[:, None], value=-1)


def _other_logits(
    embeddings: Tensor,
    matrix: Tensor,
    lengths: Tensor,
    here: Tensor,
    rows: Tensor,
    scale: float,
    start: int,
    chunk: int,
    half: torch.dtype | None,
) -> Tensor:
    """s · cos θ of one chunk of classes [n, ≤ chunk]; −∞ at each image's own class."""
    part = matrix[start : start + chunk]
    logits = _product(embeddings, part.T, half).mul_(scale / lengths[start : start + chunk])
    columns = (rows - start).clamp(0, len(part) - 1)
    inside = (rows >= start) & (rows < start + len(part))  # masked, not picked: picking would make a GPU wait at each chunk
    logits[here, columns] = logits[here, columns].masked_fill(inside, -torch.inf)
    return logits


def _drawn(rows: range, classes: int, dimensions: int, seed: int) -> Tensor:
    """Random unit rows [len(rows), d] of the whole matrix."""
    parts = []
    for start in range(0, classes, BLOCK):
        if start < rows.stop and start + BLOCK > rows.start:
            generator = torch.Generator().manual_seed(seed * 1_000_003 + start)
            block = torch.randn(min(BLOCK, classes - start), dimensions, generator=generator)
            parts.append(block[max(0, rows.start - start) : rows.stop - start])
    return functional.normalize(torch.cat(parts)) if parts else torch.zeros(0, dimensions)
