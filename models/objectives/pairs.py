"""Objectives over pairs of images of one class; all computed in float32, on unit vectors unless the settings say otherwise.

What pytorch-metric-learning computes as the papers write it comes from there, given unit vectors: its angular
loss does not normalise the negatives by itself. Its N-pair loss does not count b − 2 negatives, hence ours.
"""

import torch
from pytorch_metric_learning import losses, reducers
from torch import Tensor, nn
from torch.nn import functional

from data.errors import UserError
from models.objectives.base import Objective, ObjectiveOutput
from models.objectives.settings import (
    AngularSettings,
    ContrastiveSettings,
    MultiSimilaritySettings,
    NPairSettings,
    PairLossSettings,
    TripletSettings,
)


class PairObjective(Objective):
    """One of the losses of `PairLossSettings` over all pairs of the batch that share a label."""

    def __init__(self, settings: PairLossSettings) -> None:
        super().__init__()
        self.loss = _build_loss(settings)
        self.normalize = not isinstance(settings, NPairSettings) or settings.normalize

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """The library's or our own loss; no logs. UserError: a batch without two images of one class."""
        positive_pairs(labels)
        vectors = functional.normalize(embeddings) if self.normalize else embeddings
        return ObjectiveOutput(self.loss(vectors, labels))


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


def _build_loss(settings: PairLossSettings) -> nn.Module:
    loss: nn.Module
    match settings:
        case ContrastiveSettings():  # mean over the positive pairs plus mean over the negative ones
            loss = losses.ContrastiveLoss(settings.positive_margin, settings.negative_margin, reducer=reducers.MeanReducer())
        case TripletSettings():  # mean over the triplets that violate the margin, as the library has it
            loss = losses.TripletMarginLoss(settings.margin)
        case MultiSimilaritySettings():
            loss = losses.MultiSimilarityLoss(settings.alpha, settings.beta, settings.base)
        case AngularSettings():
            loss = losses.AngularLoss(settings.angle)
        case NPairSettings():
            loss = NPairLoss()
        case _:
            raise NotImplementedError(f"{type(settings).__name__} has no loss in {__name__}")
    return loss
