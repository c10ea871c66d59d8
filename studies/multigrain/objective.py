"""MultiGrain's objective: softmax cross-entropy, and a margin loss with distance-weighted sampling between copies of one image.

MultiGrain, section 3; the sampling is that of C.-Y. Wu et al., 2017.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from image_copies.models.distributed import gather_together, group_rank
from image_copies.models.objectives.base import Objective, ObjectiveOutput, seeded_generator
from image_copies.models.objectives.pairs import find_positive_pairs


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


class MarginLoss(Objective):
    """The mean of max(0, α + y (D − β)) over all positive pairs (y = 1) and one negative pair for each (y = −1); β is learnt.

    D are distances of unit vectors. If several processes train, an anchor's negative comes from its own process's part of the
    batch (MultiGrain, section 4.1), and the mean is over the pairs of all processes. Each step draws its negatives with a
    generator derived from `seed` and the buffer `step`, so that a resumed training draws what an uninterrupted one would.
    The arguments are those of `DistanceWeightedSettings`.
    """

    takes_local_batch = True
    step: Tensor

    def __init__(
        self,
        *,
        margin: float,
        beta: float,
        beta_learning_rate: float,
        cutoff: float | None,
        farthest: float | None,
        seed: int,
    ) -> None:
        super().__init__()
        self.margin = margin
        self.beta_learning_rate = beta_learning_rate
        self.seed = seed
        self.cutoff, self.farthest = cutoff, farthest
        self.beta = nn.Parameter(torch.tensor(beta))
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def parameter_rates(self) -> dict[str, float]:
        """Return the learning rate of β."""
        return {"beta": self.beta_learning_rate}

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, instances: Tensor, product_dtype: torch.dtype | None
    ) -> ObjectiveOutput:
        """Compute the loss, where positive pairs share a label; logs β.

        Raises:
            UserError: No two images of the batch share a label.
        """
        if self.training:
            self.step += 1
        rows, processes, labels = gather_together(embeddings, torch.full_like(labels, group_rank()), labels)
        unit = functional.normalize(rows)
        distances = (2 - 2 * unit @ unit.T).clamp(min=1e-8).sqrt()  # √0 has no finite gradient
        anchors, positives = find_positive_pairs(labels)
        near = (self.margin + distances[anchors, positives] - self.beta).relu()
        others = (labels[:, None] != labels[None]) & (processes[:, None] == processes[None])
        weights = negative_weights(
            distances.detach(), others, embeddings.shape[1], cutoff=self.cutoff, farthest=self.farthest
        )[anchors]
        # an anchor has no negative if its process has no other class in the batch
        drawable = weights.sum(1) > 0
        anchors, weights = anchors[drawable], weights[drawable]
        if len(anchors) == 0:
            return ObjectiveOutput(near.mean(), {"beta": self.beta.detach()})
        generator = seeded_generator(self.seed, int(self.step), unit.device)
        negatives = torch.multinomial(weights, 1, generator=generator)[:, 0]
        far = (self.margin - distances[anchors, negatives] + self.beta).relu()
        return ObjectiveOutput(torch.cat([near, far]).mean(), {"beta": self.beta.detach()})


def negative_weights(
    distances: Tensor, others: Tensor, dimensions: int, *, cutoff: float | None, farthest: float | None
) -> Tensor:
    """Return the sampling weights [n, n] of j as a negative of i, ∝ min(τ, 1/q(D)); the largest of each row is 1.

    q(z) ∝ z^(d−2) (1 − z²/4)^((d−3)/2) is the density of distances between random unit vectors of dimension d. It is evaluated in
    logarithms, because 1/q spans hundreds of orders of magnitude in high dimensions. As in the code of Wu et al., distances below
    `cutoff` count as `cutoff`, which gives the cap τ; none is drawn beyond `farthest`; and if all are beyond, all are equally
    likely. `distances` are D [n, n]; `others` bool [n, n] says whether j may be a negative of i, else the weight is 0.
    """
    z = distances.clamp(max(cutoff or 0.0, 1e-4), 2 - 1e-4)
    log_weights = -_log_density(z, dimensions)
    if farthest is not None:
        near = others & (distances <= farthest)
        some = near.any(1, keepdim=True)
        others, log_weights = torch.where(some, near, others), torch.where(some, log_weights, 0.0)
    log_weights = log_weights.masked_fill(~others, -torch.inf)
    largest = log_weights.amax(1, keepdim=True)
    return torch.where(largest.isfinite(), (log_weights - largest).exp(), 0.0)


def _log_density(z: Tensor, dimensions: int) -> Tensor:
    return (dimensions - 2) * z.log() + (dimensions - 3) / 2 * (1 - z * z / 4).log()


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
        torch.autograd.grad(term, embeddings, retain_graph=True)[0].norm()
        for term in (of_classes, of_copies)
    )
    tiny = torch.finfo(embeddings.dtype).tiny
    share: Tensor = (classes + tiny) / (classes + copies + 2 * tiny)
    return share
