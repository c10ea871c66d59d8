"""Objectives over pairs of images of one class, all computed in float32 and, by default, on unit vectors.

Losses that pytorch-metric-learning implements as the papers define them come from there. They are given unit vectors, because
its angular loss does not normalise the negatives.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.data.errors import UserError

from .base import Objective, ObjectiveOutput


class PairObjective(Objective):
    """A loss, of vectors [n, d] and labels int64 [n], whose positive pairs are all pairs of the batch that share a label.

    With `normalize` it is given unit vectors instead of raw embeddings, and with a miner only the pairs that this keeps.
    """

    def __init__(self, loss: nn.Module, normalize: bool = True, miner: nn.Module | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.normalize = normalize
        self.miner = miner

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the loss; nothing is logged.

        Raises:
            UserError: No two images of the batch share a class.
        """
        find_positive_pairs(labels)
        vectors = functional.normalize(embeddings) if self.normalize else embeddings
        if self.miner is not None:
            return ObjectiveOutput(self.loss(vectors, labels, self.miner(vectors, labels)))
        return ObjectiveOutput(self.loss(vectors, labels))


def find_positive_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices int64 [p], [p] of all ordered pairs of different rows of `labels` [n] with the same label.

    Raises:
        UserError: There is no such pair.
    """
    same = labels[:, None] == labels[None]
    anchors, positives = same.fill_diagonal_(False).nonzero(as_tuple=True)
    if len(anchors) == 0:
        raise UserError(
            f"no two of the {len(labels)} images of a batch share a class, but this objective compares such pairs. "
            "Sample several images of each class (PK batches, K ≥ 2) or several edited copies of each image (copies ≥ 2)."
        )
    return anchors, positives
