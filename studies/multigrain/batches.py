"""Batches of repeated augmentations (MultiGrain, section 3.3), and MixUp, with which table 2 compares them."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.sampling import Batches, Stream, group_batches, repeat_rows
from image_copies.data.arrays import Int64s
from image_copies.models.training.settings import MixSettings, SamplingSettings


def repeated_batches(
    settings: SamplingSettings, rows: Sequence[int], labels: Sequence[int], batch_size: int, stream: Stream
) -> Batches:
    """Build batches of ⌈batch_size / copies⌉ images in several edited copies each (MultiGrain, section 3.3: 512 and 3).

    The last image of a batch has as many copies as fill it.

    Raises:
        UserError: a batch has fewer images than there are processes.
    """
    repetitions = settings.copies

    def groups_of(epoch: int) -> Int64s:
        order = generator_for(stream.seed, epoch, "order of the repeated images").permutation(
            np.array(rows)
        )
        return repeat_rows(order, repetitions)

    images = -(-batch_size // repetitions)
    return group_batches(groups_of, len(rows), images, stream, surplus=images * repetitions - batch_size)


class Mixup:
    """Mixes images of a batch (H. Zhang et al., 2018)."""

    def __init__(self, settings: MixSettings) -> None:
        self.settings = settings

    def draw_share(self) -> float | None:
        """λ of a batch from Beta(α, α), from torch's random state; None for a batch that is not mixed."""
        if float(torch.rand(())) >= self.settings.probability:
            return None
        drawn = torch.distributions.Beta(self.settings.alpha, self.settings.alpha).sample()
        return float(drawn)

    def mix(self, images: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Mix each image of a batch [n, 3, h, w], with one of it at random, perhaps itself, by the weights λ = `share` and 1 − λ.

        Returned are the mixed images and the partner [n] that each also shows; its class counts 1 − λ.
        """
        partner = torch.randperm(len(images)).to(images.device, non_blocking=True)
        return share * images + (1 - share) * images[partner], partner
