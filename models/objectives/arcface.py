"""ArcFace over many classes, computed in chunks, with a class matrix that may be sharded over several processes.

The logits [n, C] never exist all at once; each process holds a part of the matrix.

J. Deng et al., ArcFace (2019): the logit of the right class is s · cos(θ + m), with the usual monotone continuation
s · (cos θ − m sin m) past θ > π − m; all others are s · cos θ.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import distributed
from .base import ClassMatrix, Objective, ObjectiveOutput, seeded_generator

# largest softmax weight in half precision: far below float16's end at 65,504, small ones above its start
WEIGHT_RANGE = 4096.0
CHUNK_SHARE = 1 / 32  # of a GPU's memory, for the temporaries of one chunk
# rows of the initial class matrix drawn with one generator, whatever the number of processes
ROWS_PER_SEED = 65_536


class ArcFace(Objective):
    """Cross-entropy over all classes with an additive angular margin.

    Each process passes its own embeddings and labels; the loss, the mean over the images of all processes, is the same on each.
    Its gradient for the embeddings is scaled for data parallelism (`models.distributed.gather_rows`); that for the process's own
    part of the matrix is exact. Under autocast, products of embeddings and matrix are computed in half precision and summed in
    float32.

    `matrix` holds prototypes [classes of this process, d], of any norm. The arguments are those of `ArcFaceSettings`; classes are
    counted over all processes.
    """

    takes_local_batch = True

    def __init__(
        self,
        dimensions: int,
        classes: int,
        *,
        margin: float,
        scale: float,
        chunk: int,
        seed: int,
        rounded_rows: bool = False,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.seed = seed
        self.rounded_rows = rounded_rows
        self.margin = margin
        self.scale = scale
        self.chunk = chunk
        self.rows = distributed.shard_rows(classes, distributed.group_rank(), distributed.group_size())
        self.matrix = nn.Parameter(_draw_prototypes(self.rows, classes, dimensions, seed))

    def class_matrix(self) -> ClassMatrix:
        """Return this process's part of the class matrix, which drip training rebuilds."""
        return ClassMatrix(self.matrix, self.rows)

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the mean cross-entropy over the batch of all processes; logs the mean cosine to the own class's prototype."""
        unit, labels = distributed.gather_together(functional.normalize(embeddings), labels)
        own_part = labels - self.rows.start  # outside 0…len(matrix)−1: another process holds the class
        chunk = choose_chunk(self.chunk, len(unit), unit.shape[1], unit.device)
        of_classes = (
            _RoundedClassSums if self.rounded_rows and product_dtype is torch.bfloat16 else _ClassSums
        )
        sums = of_classes.apply(  # type: ignore[no-untyped-call]  # torch's apply has no types
            unit, self.matrix, own_part, self.scale, chunk, product_dtype
        )
        own, others = sums
        target = angular_margin(own, self.margin)
        loss = functional.softplus(others - self.scale * target).mean()
        return ObjectiveOutput(loss, {"cosine_to_own_class": own.detach().mean()})


def angular_margin(cosine: Tensor, margin: float) -> Tensor:
    """Return cos(θ + m) from cos θ of any shape, m in radians; for θ > π − m the monotone continuation cos θ − m sin m."""
    cosine = cosine.clamp(-1 + 1e-7, 1 - 1e-7)
    shifted = cosine * math.cos(margin) - (1 - cosine * cosine).sqrt() * math.sin(margin)
    return torch.where(cosine > math.cos(math.pi - margin), shifted, cosine - margin * math.sin(margin))


def choose_chunk(given: int, images: int, dimensions: int, device: torch.device) -> int:
    """Return how many classes are compared at a time: `given`, and on a GPU more if a CHUNK_SHARE of its memory holds them.

    Every chunk launches a few dozen kernels, which take longer than the work of a small one. All of the GPU's memory counts, not
    what is free, so that a resumed training sums in the same order. `images` are those in the batch of all processes.
    """
    if device.type != "cuda":
        return given
    # logits, weights and their rounded copies; unit rows and gradients
    bytes_per_class = 4 * (3 * images + 2 * dimensions)
    room = int(CHUNK_SHARE * torch.cuda.get_device_properties(device).total_memory) // bytes_per_class
    return max(given, 1 << max(0, room.bit_length() - 1))


class _ClassSums(torch.autograd.Function):
    """cos θ of the own class [n] and log Σ_{j ≠ own} exp(s cos θ_j) [n], in chunks that backward recomputes.

    A row w is used as w / ‖w‖, so the component along w is removed from its gradient. Only one chunk exists at
    a time. Labels are rows of `matrix`; a label outside it stands for a class that another process holds.
    """

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        matrix: Tensor,
        labels: Tensor,
        scale: float,
        chunk: int,
        product_dtype: torch.dtype | None,
    ) -> tuple[Tensor, Tensor]:
        lengths, inside, rows, own = _compare_with_own(embeddings, matrix, labels)
        total = torch.full((len(embeddings),), -torch.inf, device=embeddings.device)
        for start in range(0, len(matrix), chunk):
            logits = _compute_logits_of_others(
                embeddings, matrix, lengths, inside, rows, scale, start, chunk, product_dtype
            )
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
        own, total = distributed.sum_over_processes(own), distributed.log_sum_over_processes(total)
        ctx.save_for_backward(embeddings, matrix, lengths, inside, rows, total)
        ctx.scale = scale
        ctx.chunk = chunk
        ctx.product_dtype = product_dtype
        return own, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_own, to_total = gradients
        embeddings, matrix, lengths, inside, rows, total = ctx.saved_tensors
        to_embeddings = torch.zeros_like(embeddings)
        to_matrix = torch.empty_like(matrix)
        largest = to_total.abs().max().clamp(min=torch.finfo(torch.float32).tiny) * (
            ctx.scale / WEIGHT_RANGE
        )
        for start in range(0, len(matrix), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            weights = _compute_logits_of_others(
                embeddings, matrix, lengths, inside, rows, ctx.scale, start, ctx.chunk, ctx.product_dtype
            )
            weights = weights.sub_(total[:, None]).exp_().mul_((to_total * ctx.scale / largest)[:, None])
            unit = matrix[part] / lengths[part, None]
            to_embeddings += _multiply(weights, unit, ctx.product_dtype)
            to_unit = _multiply(weights.T, embeddings, ctx.product_dtype)
            to_matrix[part] = _remove_part_along(to_unit, unit).mul_(largest / lengths[part, None])
        to_embeddings *= largest
        _add_gradients_of_own(to_own, embeddings, matrix, lengths, inside, rows, to_embeddings, to_matrix)
        return distributed.sum_over_processes(to_embeddings), to_matrix, None, None, None, None


class _RoundedClassSums(torch.autograd.Function):
    """What `_ClassSums` computes, in fewer passes over the matrix and the logits.

    The unit rows are rounded to bfloat16 once, and kept from the forward to the backward pass; so is exp of the logits, unless it
    takes too much memory (`keeps_weights`). Scaled embeddings times unit rows are logits within ±s, so that exp needs no largest
    logit to be subtracted; what depends on the image alone is multiplied into the embeddings. Needs exp(s) C below float32's
    largest number (settings.MAX_ROUNDED_SCALE).
    """

    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        matrix: Tensor,
        labels: Tensor,
        scale: float,
        chunk: int,
        product_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        lengths, inside, rows, own = _compare_with_own(embeddings, matrix, labels)
        unit = _round_rows(matrix, lengths, product_dtype)
        scaled = (scale * embeddings).to(product_dtype)
        total = torch.zeros(len(embeddings), device=embeddings.device)
        kept = list[Tensor]()
        for start in range(0, len(matrix), chunk):
            weights = _weigh_others(scaled, unit[start : start + chunk], inside, rows, start)
            total += weights.sum(dim=1, dtype=torch.float32)
            if keeps_weights(*embeddings.shape):
                kept.append(weights)
        total = distributed.sum_over_processes(total).log()
        ctx.save_for_backward(embeddings, matrix, lengths, unit, inside, rows, total, *kept)
        ctx.scale, ctx.chunk = scale, chunk
        return distributed.sum_over_processes(own), total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_own, to_total = gradients
        embeddings, matrix, lengths, unit, inside, rows, total, *kept = ctx.saved_tensors
        scaled = (ctx.scale * embeddings).to(unit.dtype)
        factors = (to_total * ctx.scale * torch.exp(-total))[:, None]
        weighted = (factors * embeddings).to(unit.dtype)
        to_embeddings = torch.zeros_like(embeddings)
        to_matrix = torch.empty_like(matrix)
        for number, start in enumerate(range(0, len(matrix), ctx.chunk)):
            part = slice(start, start + ctx.chunk)
            weights = kept[number] if kept else _weigh_others(scaled, unit[part], inside, rows, start)
            to_embeddings += _product(weights, unit[part])
            to_rows = _product(weights.T, weighted, out=to_matrix[part])
            along = torch.linalg.vecdot(to_rows, matrix[part]).div_(lengths[part].square())
            to_rows.addcmul_(matrix[part], along[:, None], value=-1).div_(lengths[part, None])
        to_embeddings *= factors
        _add_gradients_of_own(to_own, embeddings, matrix, lengths, inside, rows, to_embeddings, to_matrix)
        return distributed.sum_over_processes(to_embeddings), to_matrix, None, None, None, None


def keeps_weights(images: int, dimensions: int) -> bool:
    """Whether exp of the logits [images, C] is kept with rounded rows: where it takes no more memory than the matrix."""
    return images <= 2 * dimensions


def _weigh_others(scaled: Tensor, unit: Tensor, inside: Tensor, rows: Tensor, start: int) -> Tensor:
    """Return exp of the logits of one chunk of classes [n, c], rounded; 0 at each image's own class."""
    logits = _mask_own(_product(scaled, unit.T), inside, rows, start)
    return torch.exp(logits, out=torch.empty_like(logits, dtype=unit.dtype))


def _compare_with_own(
    embeddings: Tensor, matrix: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the rows' lengths [C]; per image whether its class is here, its row, and the cosine to it, 0 if it is not [n]."""
    lengths = matrix.norm(dim=1).clamp_(min=1e-12)
    inside = (labels >= 0) & (labels < len(matrix))
    # any row where the class is not inside: masked, as picking makes a GPU wait
    rows = labels.clamp(0, max(0, len(matrix) - 1))
    own = torch.zeros(len(embeddings), device=embeddings.device)
    if len(matrix):
        own = ((embeddings * matrix[rows]).sum(dim=1) / lengths[rows]).masked_fill_(~inside, 0)
    return lengths, inside, rows, own


def _add_gradients_of_own(
    to_own: Tensor,
    embeddings: Tensor,
    matrix: Tensor,
    lengths: Tensor,
    inside: Tensor,
    rows: Tensor,
    to_embeddings: Tensor,
    to_matrix: Tensor,
) -> None:
    """Add what the cosines to the own classes contribute to the gradients, in place."""
    if not len(matrix):
        return
    own_rows = matrix[rows] / lengths[rows, None]
    to_inside = to_own.masked_fill(~inside, 0)[:, None]
    to_embeddings += to_inside * own_rows
    to_matrix.index_add_(
        0, rows, _remove_part_along(to_inside * embeddings, own_rows) / lengths[rows, None]
    )


def _round_rows(matrix: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the rows at unit length, rounded."""
    return torch.div(matrix, lengths[:, None], out=torch.empty_like(matrix, dtype=dtype))


def _product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """Return left @ right of half-precision factors in float32, in `out` if it is given."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)
    return (left @ right).float() if out is None else out.copy_(left @ right)


def _multiply(left: Tensor, right: Tensor, product_dtype: torch.dtype | None) -> Tensor:
    """Return left @ right in float32, or from factors rounded to `product_dtype`."""
    return (
        left @ right if product_dtype is None else _product(left.to(product_dtype), right.to(product_dtype))
    )


def _remove_part_along(gradient: Tensor, unit: Tensor) -> Tensor:
    """Turn the gradient for w / ‖w‖ into that for w, except for the factor 1 / ‖w‖; overwrites `gradient`."""
    return gradient.addcmul_(unit, torch.linalg.vecdot(gradient, unit)[:, None], value=-1)


def _compute_logits_of_others(
    embeddings: Tensor,
    matrix: Tensor,
    lengths: Tensor,
    inside: Tensor,
    rows: Tensor,
    scale: float,
    start: int,
    chunk: int,
    product_dtype: torch.dtype | None,
) -> Tensor:
    """Compute the logits s · cos θ of one chunk of classes [n, ≤ chunk]; −∞ at each image's own class."""
    part = matrix[start : start + chunk]
    logits = _multiply(embeddings, part.T, product_dtype).mul_(scale / lengths[start : start + chunk])
    return _mask_own(logits, inside, rows, start)


def _mask_own(logits: Tensor, inside: Tensor, rows: Tensor, start: int) -> Tensor:
    """Set the logits [n, c] of each image's own class to −∞, in place; the first column is that of the class `start`."""
    columns = (rows - start).clamp(0, logits.shape[1] - 1)
    here = inside & (rows >= start) & (rows < start + logits.shape[1])
    images = torch.arange(len(logits), device=logits.device)
    logits[images, columns] = logits[images, columns].masked_fill(here, -torch.inf)
    return logits


def _draw_prototypes(rows: range, classes: int, dimensions: int, seed: int) -> Tensor:
    """Draw rows `rows` of a random matrix [classes, d] of unit rows, independent of which rows are requested."""
    parts = []
    for start in range(0, classes, ROWS_PER_SEED):
        if start < rows.stop and start + ROWS_PER_SEED > rows.start:
            generator = seeded_generator(seed, start)
            block = torch.randn(min(ROWS_PER_SEED, classes - start), dimensions, generator=generator)
            parts.append(block[max(0, rows.start - start) : rows.stop - start])
    return functional.normalize(torch.cat(parts)) if parts else torch.zeros(0, dimensions)
