"""Objectives over pairs of images of one class; all computed in float32, on unit vectors unless the settings say otherwise.

What pytorch-metric-learning computes as the papers write it comes from there, given unit vectors: its angular
loss does not normalise the negatives by itself. Its N-pair loss does not count b − 2 negatives, hence ours.
"""

import torch
from pytorch_metric_learning import losses, miners, reducers
from torch import Tensor, nn
from torch.nn import functional

from data.errors import UserError
from models.objectives.base import Objective, ObjectiveOutput


class PairObjective(Objective):
    """A loss over all pairs of the batch that share a label.

    `loss` maps vectors [n, d] and labels [n] to a scalar; with `normalize` it is given unit vectors, otherwise raw embeddings.
    """

    def __init__(self, loss: nn.Module, normalize: bool = True) -> None:
        super().__init__()
        self.loss, self.normalize = loss, normalize

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """The library's or our own loss; no logs. UserError: a batch without two images of one class."""
        positive_pairs(labels)
        vectors = functional.normalize(embeddings) if self.normalize else embeddings
        return ObjectiveOutput(self.loss(vectors, labels))


def contrastive_loss(positive_margin: float, negative_margin: float) -> nn.Module:
    """The mean over the positive pairs plus the mean over the negative ones; margins are distances, 0…2."""
    loss: nn.Module = losses.ContrastiveLoss(positive_margin, negative_margin, reducer=reducers.MeanReducer())
    return loss


def triplet_loss(margin: float) -> nn.Module:
    """The mean over the triplets that violate the margin, a distance, as the library has it."""
    loss: nn.Module = losses.TripletMarginLoss(margin)
    return loss


class MultiSimilarityLoss(nn.Module):
    """Multi-similarity loss (X. Wang et al., 2019): α and β weight positive and negative pairs, λ = `base` is a cosine.

    With `mining`, its ε, over the pairs that the paper's own mining keeps; None is all pairs.
    """

    def __init__(self, alpha: float, beta: float, base: float, mining: float | None) -> None:
        super().__init__()
        self.loss = losses.MultiSimilarityLoss(alpha, beta, base)
        self.miner = None if mining is None else miners.MultiSimilarityMiner(mining)

    def forward(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The scalar loss of vectors [n, d] with labels [n]; 0, with a gradient of 0, where no pair is kept."""
        loss: Tensor = self.loss(vectors, labels, None if self.miner is None else self.miner(vectors, labels))
        return loss


def angular_loss(angle: float) -> nn.Module:
    """Angular loss (SVMax, equations A3 and A4); α = `angle` in degrees."""
    loss: nn.Module = losses.AngularLoss(angle)
    return loss


class NPairLoss(nn.Module):
    """Mean over all positive pairs of log(1 + Σ_n exp(a·n − a·p)), n of other classes (SVMax, equation A1)."""

    def forward(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The scalar loss of vectors [n, d] with labels [n]; UserError without a positive pair."""
        products = vectors @ vectors.T
        anchors, positives = positive_pairs(labels)
        others = products.masked_fill(labels[:, None] == labels[None], -torch.inf)[anchors]
        own = products[anchors, positives]
        return (torch.cat([own[:, None], others], 1).logsumexp(1) - own).mean()


def positive_pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Indices [p], [p] of all ordered pairs of different images that share a label [n]; UserError when there is none."""
    same = labels[:, None] == labels[None]
    anchors, positives = same.fill_diagonal_(False).nonzero(as_tuple=True)
    if len(anchors) == 0:
        raise UserError(
            f"No two of the {len(labels)} images of a batch are of one class, and this objective compares such pairs. "
            "Sample several images of each class (PK batches, K ≥ 2) or several edited copies of each image (repetitions ≥ 2)."
        )
    return anchors, positives
