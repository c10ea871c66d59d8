"""Distillation added to any objective: a student's vectors of edited images are compared with a teacher's of the clean ones."""

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.objectives.base import Objective, ObjectiveOutput
from image_copies.models.objectives.regularized import RegularizedObjective
from image_copies.models.objectives.settings import DistillationSettings

NOT_COMPARED = torch.finfo(torch.float32).min  # instead of −∞, of which a row without any other image would make NaN


class Distillation(RegularizedObjective):
    """`objective` + λ · D, λ = `settings.weight`, over the whole batch's unit vectors z_i and the teacher's t_i of the same rows.

    Kind "vectors": D = (1 / n) Σ_i (1 − z_i · t_i), half the squared distance.

    Kind "relations": D = (1 / n) Σ_i KL(p_i ‖ q_i) with p_ij ∝ exp(t_i · t_j / τ) and q_ij ∝ exp(z_i · z_j / τ), both over the
    batch's images j that are of another instance than i. This is CompRess with two queues (S. Abbasi Koohpayegani et al., 2020):
    each network compares images in its own space, of any dimension, with one τ, 0.04 as in RDCD (J. Kim et al., 2024, with λ = 1
    next to contrastive learning). What differs: the batch stands in place of queues of earlier vectors, so that both images of a
    pair have gradients; the teacher sees clean images, where SEED's (Z. Fang et al., 2021) and RDCD's see the student's; and SEED
    and, as far as its published code shows, RDCD compare a student's vector of the teacher's dimension with the teacher's queue.

    Rows whose teacher's vector is zero, because the image could not be read, are neither compared nor compared with; n counts the
    others, of relations those that have a j. Where the objective takes a part of the batch, the other parts are gathered.

    `taught` are the teacher's vectors of all images [N, t], unit length or zero, with `instances` as rows. They are kept in half
    precision, and are no part of the state: they come from a file of their own.
    """

    taught: Tensor

    def __init__(self, objective: Objective, settings: DistillationSettings, taught: Tensor) -> None:
        super().__init__(objective)
        self.settings = settings
        self.register_buffer("taught", taught.half(), persistent=False)

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the objective's loss and logs, with D as `distillation`."""
        self.objective.measures = self.measures
        output = self.objective.compute_loss(embeddings, labels, instances, product_dtype)
        unit, rows = functional.normalize(self.gather(embeddings)), self.gather(instances)
        taught = functional.normalize(self.taught[rows].float())
        if self.settings.kind == "vectors":
            term = compare_vectors(unit, taught)
        else:
            term = compare_relations(unit, taught, rows, self.settings.temperature)
        return ObjectiveOutput(output.loss + self.settings.weight * term, output.logs | {"distillation": term.detach()})


def compare_vectors(unit: Tensor, taught: Tensor) -> Tensor:
    """Mean of 1 − cosine, 0…2, of unit vectors [n, d] and a teacher's [n, d]; rows that are zero in the latter do not count."""
    return _mean_where(taught.any(dim=1), 1 - (unit * taught).sum(dim=1))


def compare_relations(unit: Tensor, taught: Tensor, instances: Tensor, temperature: float) -> Tensor:
    """Mean of KL(p ‖ q), at least 0, of the teacher's and the student's softmax, with τ, over the other images of a batch.

    The unit vectors are the student's [n, d] and the teacher's [n, t], of which zero rows do not count; `instances` is [n].
    """
    known = taught.any(dim=1)
    others = (instances[:, None] != instances[None]) & known[None]
    wanted, own = (
        (vectors @ vectors.T / temperature).masked_fill(~others, NOT_COMPARED).log_softmax(dim=1) for vectors in (taught, unit)
    )
    divergences = functional.kl_div(own, wanted, reduction="none", log_target=True).sum(dim=1)
    return _mean_where(known & others.any(dim=1), divergences)


def _mean_where(counted: Tensor, values: Tensor) -> Tensor:
    """The mean of the values [n] that count; 0 where none does."""
    return torch.where(counted, values, 0.0).sum() / counted.sum().clamp(min=1)
