"""MixUp and CutMix of a batch: images that show two others at once (SSCD, section 3.4, for copies)."""

import math
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


def mix_batch(images: Tensor, share: float, cut: bool) -> Mixed:
    """Mix each image [3, h, w] of a batch [n, 3, h, w], n at least 2, with another one of it, all by the same λ = `share`.

    MixUp takes the pixels' mean with weights λ and 1 − λ; CutMix (`cut`) a box of the partner's pixels that covers 1 − λ, drawn
    once for the batch. A cut box is whole pixels, and λ follows it.
    """
    partner = torch.randperm(len(images)).to(images.device, non_blocking=True)
    others = images[partner]
    if not cut:
        return Mixed(share * images + (1 - share) * others, partner, share)
    height, width = images.shape[2:]
    tall, wide = (round(side * math.sqrt(1 - share)) for side in (height, width))
    top, left = (int(torch.randint(side - part + 1, ())) for side, part in ((height, tall), (width, wide)))
    mixed = images.clone()
    mixed[:, :, top : top + tall, left : left + wide] = others[:, :, top : top + tall, left : left + wide]
    return Mixed(mixed, partner, 1 - tall * wide / (height * width))
