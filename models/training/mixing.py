"""MixUp of a batch: images that show two others at once (H. Zhang et al., 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from image_copies.models.training.settings import MixSettings


@dataclass(frozen=True)
class Mixed:
    """A mixed batch."""

    images: Tensor  # [n, 3, h, w]
    partner: Tensor  # [n], which other image of the batch each also shows
    share: float  # λ, how much is the image's own, 0…1; its class counts λ, its partner's 1 − λ


def draw_share(settings: MixSettings) -> float | None:
    """λ of a batch from Beta(α, α), from torch's random state; None for a batch that is not mixed."""
    if float(torch.rand(())) >= settings.probability:
        return None
    drawn = torch.distributions.Beta(settings.alpha, settings.alpha).sample()
    return float(drawn)


def mix_batch(images: Tensor, share: float) -> Mixed:
    """Mix each image of a batch [n, 3, h, w], with one of it at random, perhaps itself, by the weights λ = `share` and 1 − λ."""
    partner = torch.randperm(len(images)).to(images.device, non_blocking=True)
    return Mixed(share * images + (1 - share) * images[partner], partner, share)
