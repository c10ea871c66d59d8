"""Networks as plain functions of pixels, independent of what runs them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.images import ImageSet
from image_copies.data.loader import CleanImages
from image_copies.data.process import choose_workers
from image_copies.models.device import best_device, report_lack_of_memory
from image_copies.models.inference.embed import (
    MEMORY_REMEDY,
    EmbeddedBlock,
    check_finite,
    describe_batch,
    embed_batch,
    image_sizes,
    measure_memory_format,
)
from image_copies.models.inference.padding import pad_batch
from image_copies.models.inference.parallel import map_in_parallel
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor

MAX_IMAGES_WITHOUT_WORKERS = 64  # decoding so few takes less time than starting worker processes
Squares = Mapping[int, Tensor]  # size → uint8 [n, 3, size, size], the same images at several sizes


@dataclass(frozen=True)
class Embedder:
    """A network that is ready to embed, whatever file it was loaded from."""

    sizes: tuple[int, ...]  # input sizes in pixels
    dimensions: int
    embed: Callable[[Squares], NDArray[np.float32]]  # maps the images at each of `sizes` to unit vectors float32 [n, d]


def load_embedder(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Load a checkpoint on the best device.

    Raises:
        UserError: The file is missing or not a checkpoint, or there are more processes than GPUs.
    """
    loaded = load_descriptor(checkpoint)
    device = best_device()
    measure_memory_format(loaded, settings)
    descriptor = loaded.descriptor.eval().to(device)
    descriptor.pool_with(settings.pooling_exponent)
    descriptor.whitens = settings.whiten
    sizes = image_sizes(settings, loaded.image_size)
    size = max(sizes)

    def embed(squares: Squares) -> NDArray[np.float32]:
        with report_lack_of_memory(describe_batch(len(squares[size]), size), MEMORY_REMEDY):
            batch = normalize_pixels(squares[size].to(device), descriptor.mean, descriptor.std)
            return embed_batch(descriptor, batch, sizes, settings.flip, settings.precision).float().cpu().numpy()

    return Embedder((size,), descriptor.dimensions, embed)


def embed_with_all(networks: list[Embedder], images: ImageSet, settings: EmbeddingSettings) -> Iterator[EmbeddedBlock]:
    """Embed images with several networks; the vectors are concatenated, [m, Σ dimensions].

    An image is decoded once for all networks of the same input size.

    Raises:
        UserError: A vector is not finite.
    """
    workers = choose_workers(settings.workers) if len(images) > MAX_IMAGES_WITHOUT_WORKERS else 0
    device, sizes = best_device(), list_square_sizes(networks)
    loaders = [DataLoader(CleanImages(images, size), settings.batch_size, num_workers=workers) for size in sizes]

    def embed(batches: tuple[tuple[Tensor, Tensor], ...]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        squares = {size: pad_batch(batch, settings.batch_size, device) for size, (batch, _) in zip(sizes, batches, strict=True)}
        unreadable = ~np.logical_and.reduce([readable.numpy() for _, readable in batches])
        vectors = np.concatenate([network.embed(squares)[: len(unreadable)] for network in networks], axis=1)
        vectors[unreadable] = 0
        return vectors, unreadable

    first = 0
    for vectors, unreadable in map_in_parallel(embed, zip(*loaders, strict=True), device):
        check_finite(vectors, images, first)
        yield EmbeddedBlock(first, vectors, unreadable)
        first += len(vectors)


def list_square_sizes(networks: list[Embedder]) -> list[int]:
    """Return all input sizes of the networks in pixels, ascending."""
    return sorted({size for network in networks for size in network.sizes})
