"""Whether a network gives the same vectors while it learns as when it embeds: weights with wrong batch statistics do not."""

import copy

import torch
from torch import Tensor
from torch.nn import functional

from image_copies.models.network.descriptor import Descriptor

LEAST_AGREEMENT = 0.15  # mean cosine below which a start is warned of


@torch.no_grad()
def measure_agreement(descriptor: Descriptor, images: Tensor) -> float:
    """Mean cosine −1…1 of the same images' vectors in training and in evaluation mode, each mode's mean vector taken off.

    Without its mean, which all images share, a vector says what tells its image from others. Neither weights, statistics nor
    random state change. The images are [n, 3, s, s], normalised; n at least 2.
    """

    def centred(training: bool) -> Tensor:
        network = copy.deepcopy(descriptor).train(training)
        with torch.random.fork_rng(devices=[images.device] if images.is_cuda else []):
            found: Tensor = network(images, raw=True).float().transpose(0, -2).flatten(1)  # with domains [4, n, d / 4]
        return found - found.mean(dim=0)

    return float(functional.cosine_similarity(centred(True), centred(False)).mean())


def find_disagreement(descriptor: Descriptor, images: Tensor) -> str:
    """Say of normalised images [n, 3, s, s] how weights embed them otherwise than they learn; empty where they do not."""
    cosine = measure_agreement(descriptor, images)
    if cosine >= LEAST_AGREEMENT:
        return ""
    return (
        f"the start's vectors while it learns and when it embeds disagree (mean cosine {cosine:.2f}): the statistics of its "
        "batch normalisations are not those of its weights, as where they were folded into the convolutions. Take other "
        "weights, or train with descriptor.frozen_statistics: true."
    )
