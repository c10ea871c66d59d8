"""MultiGrain's margin loss with distance-weighted sampling (MultiGrain, section 3; C.-Y. Wu et al., 2017)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.objectives import ObjectiveOutput
from models.objectives.pairs import positive_pairs
from models.objectives.settings import MarginSettings


class MarginLoss(nn.Module):
    """Mean of max(0, α + y (D − β)) over all positive pairs (y = 1) and one negative for each (y = −1); β is learnt.

    Embeddings [n, d] of any length, labels [n]. Each step draws from a generator of its own, made of `seed` and the buffer
    `step`, so that a resumed training draws what an unbroken one would. Raises UserError for a batch without a positive pair.
    """

    step: Tensor

    def __init__(self, settings: MarginSettings, seed: int) -> None:
        super().__init__()
        self.settings, self.seed = settings, seed
        self.beta = nn.Parameter(torch.tensor(settings.beta))
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def parameter_rates(self) -> dict[str, float]:
        """Parameters with a learning rate of their own."""
        return {"beta": self.settings.beta_learning_rate}

    def forward(self, embeddings: Tensor, labels: Tensor, instances: Tensor | None = None) -> ObjectiveOutput:
        if self.training:
            self.step += 1
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = functional.normalize(embeddings.float())
            distances = (2 - 2 * unit @ unit.T).clamp(min=1e-8).sqrt()  # √0 has no finite gradient
            anchors, positives = positive_pairs(labels)
            near = (self.settings.margin + distances[anchors, positives] - self.beta).relu()
            weights = negative_weights(distances.detach(), labels, embeddings.shape[1], self.settings.log_cap)[anchors]
            drawable = weights.sum(1) > 0  # an anchor without another class in the batch has no negative
            anchors, weights = anchors[drawable], weights[drawable]
            if len(anchors) == 0:
                return ObjectiveOutput(near.mean(), {"beta": self.beta.detach()})
            generator = torch.Generator(unit.device).manual_seed(self.seed * 1_000_003 + int(self.step))
            negatives = torch.multinomial(weights, 1, generator=generator)[:, 0]
            far = (self.settings.margin - distances[anchors, negatives] + self.beta).relu()
            loss = torch.cat([near, far]).mean()
        return ObjectiveOutput(loss, {"beta": self.beta.detach()})


def negative_weights(distances: Tensor, labels: Tensor, dimensions: int, log_cap: float) -> Tensor:
    """Weights [n, n] ∝ min(τ, 1/q(D)) of j as a negative of i, 0 within a class; the largest of a row is 1.

    q(z) ∝ z^(d−2) (1 − z²/4)^((d−3)/2) is the density of distances between random unit vectors; in logarithms, since in high
    dimension 1/q spans hundreds of powers of ten. τ = e^log_cap / q(√2).
    """
    z = distances.clamp(1e-4, 2 - 1e-4)
    log_rarity = -_log_density(z, dimensions) + _log_density(torch.tensor(math.sqrt(2.0)), dimensions).to(z)
    log_weights = log_rarity.clamp(max=log_cap).masked_fill(labels[:, None] == labels[None], -torch.inf)
    largest = log_weights.amax(1, keepdim=True)
    return torch.where(largest.isfinite(), (log_weights - largest).exp(), 0.0)


def _log_density(z: Tensor, dimensions: int) -> Tensor:
    return (dimensions - 2) * z.log() + (dimensions - 3) / 2 * (1 - z * z / 4).log()
