"""IDEAL: losses within one domain only, each on its own part of the embedding."""

import torch
from torch import Tensor, nn

from models.objectives import ObjectiveOutput


def within_domains(objective: nn.Module, vectors: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
    """Mean of the objective over the domains' vectors [domains, n, d / domains]; logs are those of the first domain."""
    outputs = [objective(domain, labels, instances) for domain in vectors]
    return ObjectiveOutput(torch.stack([output.loss for output in outputs]).mean(), outputs[0].logs)
