"""Softmax cross-entropy, and MultiGrain's joint objective with the margin loss between copies of one image."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..distributed import gather_together
from .base import Objective, ObjectiveOutput
from .margin import MarginLoss


class Softmax(Objective):
    """Mean cross-entropy of a linear classifier [classes, dimensions] with bias on the raw embeddings."""

    def __init__(self, dimensions: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(dimensions, classes)

    def linear_classifier(self) -> nn.Linear:
        """Return the classifier that is trained."""
        return self.classifier

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the mean over the batch; logs cross_entropy."""
        loss = functional.cross_entropy(self.classifier(embeddings), labels)
        return ObjectiveOutput(loss, {"cross_entropy": loss.detach()})


class MultiGrain(Objective):
    """λ · cross-entropy / |B| + (1 − λ) · margin loss / |P| (MultiGrain, equation 5); positive pairs share an instance.

    A term of weight λ or 1 − λ = 0 is left out: λ = 1 needs no repeated images, λ = 0 has no classifier (`softmax` is None). The
    objective takes the local batch, because negatives come from it alone; the loss is that of the whole batch.
    """

    takes_local_batch = True

    def __init__(self, weight: float, softmax: Softmax | None, margin: MarginLoss) -> None:
        super().__init__()
        self.weight = weight
        self.softmax = softmax
        self.margin = margin

    def linear_classifier(self) -> nn.Linear | None:
        """Return the classifier; None if λ = 0."""
        return self.softmax.linear_classifier() if self.softmax is not None else None

    def parameter_rates(self) -> dict[str, float]:
        """Return the learning rate of the margin loss's β."""
        return {f"margin.{name}": rate for name, rate in self.margin.parameter_rates().items()}

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the weighted sum; logs both terms, and `class_gradient`, the share of the classes in the gradient.

        Raises:
            UserError: λ < 1 and no two embeddings of the batch share an instance.
        """
        terms: list[Tensor] = []
        logs: dict[str, Tensor | float] = {}
        if self.softmax is not None:
            of_classes = self.softmax(*gather_together(embeddings, labels))
            terms.append(self.weight * of_classes.loss)
            logs |= of_classes.logs
        if self.weight < 1:
            of_copies = self.margin(embeddings, labels=instances, instances=instances)
            terms.append((1 - self.weight) * of_copies.loss)
            logs |= of_copies.logs | {"margin_loss": of_copies.loss.detach()}
        if len(terms) == 2 and self.measures and embeddings.requires_grad:
            logs["class_gradient"] = _compute_class_gradient_share(terms[0], terms[1], embeddings)
        return ObjectiveOutput(torch.stack(terms).sum(), logs)


def _compute_class_gradient_share(of_classes: Tensor, of_copies: Tensor, embeddings: Tensor) -> Tensor:
    """Compute ‖g_class‖ / (‖g_class‖ + ‖g_copies‖) of the weighted terms (MultiGrain, ICLR submission, figure C.1).

    g is the gradient for the embeddings, of this process. The share is 0…1, and 0.5 where neither term has a gradient.
    """
    classes, copies = (
        torch.autograd.grad(term, embeddings, retain_graph=True)[0].norm() for term in (of_classes, of_copies)
    )
    tiny = torch.finfo(embeddings.dtype).tiny
    share: Tensor = (classes + tiny) / (classes + copies + 2 * tiny)
    return share
