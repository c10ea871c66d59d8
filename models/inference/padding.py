"""Batches of a size at which an image's vector does not depend on the other images."""

import torch
from torch import Tensor
from torch.nn import functional

ALIGNED_IMAGES = 16  # below, one thread of torch computes 1 × 1 convolutions in another way; the vector loops of a CPU end evenly


def pad_batch(pixels: Tensor, batch_size: int, device: torch.device) -> Tensor:
    """On a CPU, append black images to [n, …] so that n is a multiple of ALIGNED_IMAGES, or of a smaller `batch_size`.

    With a `batch_size` that is a multiple of ALIGNED_IMAGES, an image's vector then has the same bits in every batch and at every
    place in it.
    """
    if device.type != "cpu":
        return pixels
    missing = -len(pixels) % min(ALIGNED_IMAGES, batch_size)
    return functional.pad(pixels, (0, 0) * (pixels.ndim - 1) + (0, missing)) if missing else pixels
