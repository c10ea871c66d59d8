"""Images → vectors, in blocks, in the order of the images."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from augmentations.dataset import normalize_pixels
from data.errors import UserError
from data.images import ImageSet
from data.loader import CleanImages
from data.process import choose_workers
from models.device import autocast, best_device, report_lack_of_memory
from models.inference.parallel import map_in_parallel
from models.network.checkpoint import Checkpoint
from models.settings import EmbeddingSettings


@dataclass(frozen=True)
class EmbeddedBlock:
    """Vectors of consecutive images.

    Attributes:
        first: Row of the block's first image.
        vectors: [m, d] float32, unit length; zero where the image cannot be read.
        unreadable: [m] bool, which images cannot be read.
    """

    first: int
    vectors: NDArray[np.float32]
    unreadable: NDArray[np.bool_]


def embed_images(checkpoint: Checkpoint, images: ImageSet, settings: EmbeddingSettings) -> Iterator[EmbeddedBlock]:
    """Embed every image at settings.image_size (default: the size it was trained at), a batch at a time."""
    device = best_device()
    descriptor = checkpoint.descriptor.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
    sizes = image_sizes(settings, checkpoint.image_size)
    dataset = CleanImages(images, max(sizes))
    loader = DataLoader(
        dataset,
        settings.batch_size,
        num_workers=choose_workers(settings.workers),
        pin_memory=device.type == "cuda",
        worker_init_fn=_lower_priority,
    )
    work = f"while a batch of {settings.batch_size} images of {max(sizes)} px was embedded"
    remedy = "Lower batch_size (of `embedding` in the recipe), image_size or scales, or end what else uses the memory."

    def embed(loaded: tuple[Tensor, Tensor]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        pixels, readable = loaded
        with report_lack_of_memory(work, remedy):
            batch = normalize_pixels(pixels.to(device, non_blocking=True), descriptor.mean, descriptor.std)
            vectors = embed_batch(descriptor, batch, sizes, settings.flip, settings.precision).float().cpu().numpy()
        unreadable = ~readable.numpy()
        vectors[unreadable] = 0
        return vectors, unreadable

    first = 0
    with (
        descriptor.pooled_with(settings.pooling_exponent),
        descriptor.whitened_with(settings.whiten),
    ):  # a validated descriptor goes on learning
        for vectors, unreadable in map_in_parallel(embed, loader, device):
            check_finite(vectors, images, first)
            yield EmbeddedBlock(first, vectors, unreadable)
            first += len(vectors)


def check_finite(vectors: NDArray[np.float32], images: ImageSet, first: int) -> None:
    """UserError names the first image, of those from row `first` on, whose vector [d] holds NaN or infinity."""
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise UserError(
            f"the network's vector of {images.paths[first + broken[0]]} is not finite: its weights are damaged, its training "
            "diverged, or precision 16 is too narrow for it (embedding.precision: bf16 or 32)."
        )


@torch.inference_mode()
def embed_batch(descriptor: nn.Module, pixels: Tensor, sizes: list[int], flip: bool = False, precision: str = "32") -> Tensor:
    """Unit vectors [n, d] of normalised images [n, 3, s, s]: the unit mean over the sizes and, with `flip`, mirror images."""
    with autocast(pixels.device, precision):
        return average_vectors(
            [descriptor(view.contiguous(memory_format=torch.channels_last)) for view in make_views(pixels, sizes, flip)]
        )


def image_sizes(settings: EmbeddingSettings, trained_at: int) -> list[int]:
    """The sizes in pixels that each image is embedded at."""
    size = settings.image_size or trained_at
    return [max(16, round(size * scale)) for scale in settings.scales]


def make_views(pixels: Tensor, sizes: list[int], flip: bool) -> list[Tensor]:
    """Images [n, 3, s, s] at all sizes and, with `flip`, mirrored too."""
    views = [pixels if size == pixels.shape[2] else _resize(pixels, size) for size in sizes]
    return views + ([view.flip(3) for view in views] if flip else [])


def average_vectors(vectors: list[Tensor]) -> Tensor:
    """The unit mean [n, d] of unit vectors, each [n, d]."""
    return vectors[0] if len(vectors) == 1 else nn.functional.normalize(torch.stack(vectors).sum(dim=0))


def _lower_priority(_: int) -> None:
    """Workers decode ahead in what time the network leaves: where both share the cores, the network goes first."""
    os.nice(10)


def _resize(pixels: Tensor, size: int) -> Tensor:
    return nn.functional.interpolate(pixels, (size, size), mode="bilinear", antialias=True, align_corners=False)
