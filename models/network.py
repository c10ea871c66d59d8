"""A trained network as a plain function of pixels, whatever runs it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from augmentations.dataset import normalized
from data.images import ImageSet
from data.loader import CleanImages
from models.checkpoint import load_descriptor
from models.device import best_device
from models.embed import EmbeddedBlock, embed_batch
from models.settings import EmbeddingSettings

FEW = 64  # so many images are decoded faster than worker processes start


@dataclass(frozen=True)
class Network:
    """embed: uint8 [n, 3, size, size] → unit vectors [n, dimensions] float32."""

    size: int
    dimensions: int
    embed: Callable[[Tensor], NDArray[np.float32]]


def torch_network(checkpoint: Path, settings: EmbeddingSettings) -> Network:
    """A checkpoint on the best device, with a run's way of embedding. UserError when the file is no checkpoint."""
    loaded = load_descriptor(checkpoint)
    device = best_device()
    descriptor = loaded.descriptor.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.pooling_exponent is not None:
        descriptor.pooling.exponent.data.fill_(settings.pooling_exponent)
    size = settings.image_size or loaded.image_size
    sizes = [max(16, round(size * scale)) for scale in settings.scales]

    def embed(pixels: Tensor) -> NDArray[np.float32]:
        batch = normalized(pixels.to(device), descriptor.mean, descriptor.std)
        return embed_batch(descriptor, batch, sizes, settings.flip, settings.precision).float().cpu().numpy()

    return Network(max(sizes), descriptor.settings.dimensions, embed)


def embed_with_all(networks: list[Network], images: ImageSet, settings: EmbeddingSettings) -> Iterator[EmbeddedBlock]:
    """All networks' vectors side by side [m, Σ dimensions]; an image is decoded once for all networks of the same size."""
    workers = settings.workers if len(images) > FEW else 0
    sizes = sorted({network.size for network in networks})
    loaders = [DataLoader(CleanImages(images, size), settings.batch_size, num_workers=workers) for size in sizes]
    first = 0
    for batches in zip(*loaders, strict=True):
        pixels = {size: batch for size, (batch, _) in zip(sizes, batches, strict=True)}
        unreadable = ~np.logical_and.reduce([readable.numpy() for _, readable in batches])
        vectors = np.concatenate([network.embed(pixels[network.size]) for network in networks], axis=1)
        vectors[unreadable] = 0
        yield EmbeddedBlock(first, vectors, unreadable)
        first += len(vectors)
