"""Pairs of a batch with the embeddings of the batches before it (X. Wang et al., Cross-batch memory, 2020)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.objectives.base import Objective, ObjectiveOutput
from image_copies.models.objectives.pairs import find_positive_pairs

PairLoss = Callable[[Tensor, Tensor, Tensor], Tensor]  # (cosines [n, m], positive [n, m] bool, negative [n, m] bool) → scalar


class CrossBatchMemory(Objective):
    """A loss over the pairs of each image of the batch with all others and with the last `size` embeddings before the batch.

    Embeddings in the memory have no gradient; they are a few steps old, which matters less the slower the network changes. The
    memory is part of the state, so that a resumed training compares with the same. All processes hold the same one.
    """

    vectors: Tensor
    classes: Tensor
    next_row: Tensor

    def __init__(self, loss: PairLoss, dimensions: int, size: int) -> None:
        super().__init__()
        self.loss, self.size = loss, size
        self.register_buffer("vectors", torch.zeros(size, dimensions))
        self.register_buffer("classes", torch.full((size,), -1))  # −1: not filled yet
        self.register_buffer("next_row", torch.zeros((), dtype=torch.long))

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Return the loss; logs the share of the memory that is filled.

        Raises:
            UserError: No two images of the batch are of one class.
        """
        find_positive_pairs(labels)
        unit = functional.normalize(embeddings)
        known = torch.cat([labels, self.classes])
        same = labels[:, None] == known[None]
        different = ~same & (known >= 0)
        same[:, : len(labels)].fill_diagonal_(False)  # no image is a pair with itself
        loss = self.loss(unit @ torch.cat([unit, self.vectors]).T, same, different)
        if self.training:
            self._keep(unit.detach(), labels)
        return ObjectiveOutput(loss, {"memory_filled": (self.classes >= 0).float().mean()})

    def _keep(self, unit: Tensor, labels: Tensor) -> None:
        """Put the batch in place of the oldest embeddings; of a batch larger than the memory, its last ones."""
        unit, labels = unit[-self.size :], labels[-self.size :]
        rows = (self.next_row + torch.arange(len(labels), device=labels.device)) % self.size
        self.vectors, self.classes = self.vectors.clone(), self.classes.clone()  # the graph of this step holds the old ones
        self.vectors[rows], self.classes[rows] = unit, labels
        self.next_row = (self.next_row + len(labels)) % self.size


def infonce_of_pairs(temperature: float) -> PairLoss:
    """Mean over the positive pairs of −log(e^{s_p / τ} / (e^{s_p / τ} + Σ_n e^{s_n / τ})), n the negatives of their anchor."""

    def loss(cosines: Tensor, same: Tensor, different: Tensor) -> Tensor:
        logits = cosines / temperature
        negatives = logits.masked_fill(~different, -torch.inf).logsumexp(dim=1, keepdim=True)
        each = torch.logaddexp(logits, negatives) - logits
        return each.masked_fill(~same, 0).sum() / same.sum()

    return loss


def contrastive_of_pairs(positive_margin: float, negative_margin: float, violating: bool = False) -> PairLoss:
    """The mean over the positive pairs plus the mean over the negative ones, as in the contrastive objective; of distances."""

    def mean(excess: Tensor, pairs: Tensor) -> Tensor:
        counted = excess.relu().masked_fill(~pairs, 0)
        return counted.sum() / (counted > 0 if violating else pairs).sum().clamp(min=1)

    def loss(cosines: Tensor, same: Tensor, different: Tensor) -> Tensor:
        distances = (2 - 2 * cosines).clamp(min=1e-8).sqrt()  # √0 has no finite gradient
        return mean(distances - positive_margin, same) + mean(negative_margin - distances, different)

    return loss
