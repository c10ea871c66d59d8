"""Cross entropy over classes, and MultiGrain's joint objective of it and the margin loss between copies of one image."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.objectives import ObjectiveOutput
from models.objectives.margin import MarginLoss
from models.objectives.settings import MultiGrainSettings


class Softmax(nn.Module):
    """Mean cross entropy of a linear classifier on the raw embeddings [n, d], labels [n]."""

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(dimensions, classes)

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None) -> ObjectiveOutput:
        with torch.autocast(embeddings.device.type, enabled=False):
            loss = functional.cross_entropy(self.classifier(embeddings.float()), labels)
        return ObjectiveOutput(loss, {"cross_entropy": loss.detach()})


class MultiGrain(nn.Module):
    """λ · cross entropy / |B| + (1 − λ) · margin loss / |P| (MultiGrain, equation 4); positives share an instance [n].

    Either part is left out where its weight is 0: λ = 1 needs no repeated images, λ = 0 has no classifier.
    """

    def __init__(self, dimensions: int, classes: int, settings: MultiGrainSettings, seed: int) -> None:
        super().__init__()
        self.weight = settings.weight
        self.softmax = Softmax(dimensions, classes) if settings.weight > 0 else None
        self.margin = MarginLoss(settings.margin_settings(), seed)

    def parameter_rates(self) -> dict[str, float]:
        """Parameters with a learning rate of their own."""
        return {f"margin.{name}": rate for name, rate in self.margin.parameter_rates().items()}

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor) -> ObjectiveOutput:
        loss = embeddings.new_zeros((), dtype=torch.float32)
        logs: dict[str, Tensor | float] = {}
        if self.softmax is not None:
            classes = self.softmax(embeddings, labels)
            loss, logs = loss + self.weight * classes.loss, logs | classes.logs
        if self.weight < 1:
            copies = self.margin(embeddings, instances)
            loss, logs = loss + (1 - self.weight) * copies.loss, logs | copies.logs | {"margin_loss": copies.loss.detach()}
        return ObjectiveOutput(loss, logs)
