"""IDEAL's loss: the sum of one loss per domain, each on its own part of the embedding (IDEAL, equation 2)."""

import torch
from torch import Tensor

from image_copies.models.objectives.base import Objective, ObjectiveOutput


def sum_over_domains(objective: Objective, embeddings: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
    """Sum an objective over domains' embeddings [domains, n, d / domains] with equal labels and instances [n]; logs of the first.

    Raises:
        UserError: The batch does not contain what the objective compares.
    """
    outputs = [objective(domain, labels, instances) for domain in embeddings]
    return ObjectiveOutput(torch.stack([output.loss for output in outputs]).sum(), outputs[0].logs)
