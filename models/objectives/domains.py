"""IDEAL: losses within one domain only, each on its own part of the embedding (IDEAL, equation 2)."""

import torch
from torch import Tensor

from models.objectives.base import Objective, ObjectiveOutput


def sum_over_domains(objective: Objective, embeddings: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
    """Sum of the objective over the domains' embeddings [domains, n, d / domains]; logs are those of the first domain."""
    outputs = [objective(domain, labels, instances) for domain in embeddings]
    return ObjectiveOutput(torch.stack([output.loss for output in outputs]).sum(), outputs[0].logs)
