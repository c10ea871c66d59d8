"""KoLeo: the distance to the nearest other image keeps vectors spread (A. Sablayrolles et al., 2019; SSCD, 2022, equation 3)."""

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.objectives.base import Objective, ObjectiveOutput
from image_copies.models.objectives.regularized import RegularizedObjective

LEAST_DISTANCE = 1e-4  # of unit vectors; nearer ones count as this, so that the gradient of the logarithm stays finite


class Koleo(RegularizedObjective):
    """`objective` + λ · KoLeo, λ = `weight`; an estimate of the vectors' entropy, with the sign turned.

    −(1 / n) Σ_i log(min_j ‖z_i − z_j‖) over the whole batch's unit vectors, j of another class than i: copies are to be near.
    An image without a j counts 0. Where the objective takes this process's part of a batch, the other parts are gathered.
    """

    def __init__(self, objective: Objective, weight: float) -> None:
        super().__init__(objective)
        self.weight = weight

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the objective's loss and logs, with KoLeo's."""
        self.objective.measures = self.measures
        output = self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        entropy = koleo(functional.normalize(self.gather(embeddings)), self.gather(labels))
        return ObjectiveOutput(output.loss + self.weight * entropy, output.logs | {"koleo": entropy.detach()})


def koleo(unit: Tensor, labels: Tensor) -> Tensor:
    """KoLeo of unit vectors [n, d] with classes [n], a scalar; lower where they are spread more."""
    with torch.no_grad():  # who is nearest; the distance, with its gradient, is computed again without the square's rounding
        cosines = (unit @ unit.T).masked_fill(labels[:, None] == labels[None], -torch.inf)
        best, nearest = cosines.max(dim=1)
    distances = (unit - unit[nearest]).square().sum(dim=1).clamp(min=LEAST_DISTANCE**2).sqrt()
    return -torch.where(best.isfinite(), distances.log(), 0.0).mean()
