"""MixUp of a batch: images that show two others at once (H. Zhang et al., 2018)."""

import torch
from torch import Tensor

from image_copies.models.training.settings import MixSettings


def draw_share(settings: MixSettings) -> float | None:
    """λ of a batch from Beta(α, α), from torch's random state; None for a batch that is not mixed."""
    if float(torch.rand(())) >= settings.probability:
        return None
    drawn = torch.distributions.Beta(settings.alpha, settings.alpha).sample()
    return float(drawn)


def mix_batch(images: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Mix each image of a batch [n, 3, h, w], with one of it at random, perhaps itself, by the weights λ = `share` and 1 − λ.

    Returned are the mixed images and the partner [n] that each also shows; its class counts 1 − λ.
    """
    partner = torch.randperm(len(images)).to(images.device, non_blocking=True)
    return share * images + (1 - share) * images[partner], partner
