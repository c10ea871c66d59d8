"""Images → vectors, in blocks, in the order of the images."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from data.images import ImageSet
from data.loader import CleanImages
from models.checkpoint import Checkpoint
from models.device import autocast, best_device
from models.settings import EmbeddingSettings


@dataclass(frozen=True)
class EmbeddedBlock:
    """Unit vectors [m, d] of images `first` … `first + m`; rows of unreadable images are zero and marked."""

    first: int
    vectors: NDArray[np.float32]
    unreadable: NDArray[np.bool_]


def embed_images(checkpoint: Checkpoint, images: ImageSet, settings: EmbeddingSettings) -> Iterator[EmbeddedBlock]:
    """Embed every image at settings.image_size (default: the size it was trained at), a batch at a time."""
    device = best_device()
    descriptor = checkpoint.descriptor.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.pooling_exponent is not None:
        descriptor.pooling.exponent.data.fill_(settings.pooling_exponent)
    size = settings.image_size or checkpoint.image_size
    dataset = CleanImages(images, size, descriptor.mean, descriptor.std)
    loader = DataLoader(dataset, settings.batch_size, num_workers=settings.workers, pin_memory=device.type == "cuda")
    first = 0
    for pixels, readable in loader:
        vectors = embed_batch(descriptor, pixels.to(device, non_blocking=True), settings.flip, settings.precision).cpu().numpy()
        unreadable = ~readable.numpy()
        vectors[unreadable] = 0
        yield EmbeddedBlock(first, vectors, unreadable)
        first += len(vectors)


@torch.inference_mode()
def embed_batch(descriptor: nn.Module, pixels: Tensor, flip: bool = False, precision: str = "32") -> Tensor:
    """Unit vectors [n, d] of normalised images; with `flip` the unit mean of the image's and its mirror image's vector."""
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    with autocast(pixels.device, precision):
        vectors = descriptor(pixels)
        if flip:
            vectors = nn.functional.normalize(vectors + descriptor(pixels.flip(3)))
    return vectors
