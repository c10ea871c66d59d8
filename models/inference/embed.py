"""Embedding of images: vectors in blocks, in the order of the images."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data import preprocessing, process, threads
from image_copies.data.arrays import Bools, Float32s
from image_copies.data.images import ImageSet

from ..device import autocast, best_device, mark_arrival, report_lack_of_memory
from ..network.checkpoint import Checkpoint
from . import embedders, folding, parallel
from .settings import EmbeddingSettings

MEMORY_REMEDY = (
    "Lower batch_size (of `embedding` in the recipe), image_size, or stop other programs that use memory."
)


@dataclass(frozen=True)
class _Launched:
    """A batch on its way through the network: vectors float32 [n, d] on the host, and which images could be read, bool [n].

    The vectors are there once `arrived`, where it is not None, has been waited for.
    """

    vectors: Tensor
    readable: Tensor
    arrived: torch.cuda.Event | None


Batch = Sequence[Tensor]  # pixels uint8 [n, 3, s, s], and which images could be read [n]


def embed_images(
    checkpoint: Checkpoint, images: ImageSet, settings: EmbeddingSettings
) -> Iterator[embedders.EmbeddedBlock]:
    """Embed images batch by batch, in order, on the best device, by default at the size that the descriptor was trained at.

    Raises:
        UserError: A vector is not finite, memory runs out, or there are more processes than GPUs.
    """
    device = best_device()
    launch = prepare_network(checkpoint, settings, device)
    batches: DataLoader[Any] = DataLoader(
        preprocessing.PreprocessedImages(images, settings.image_size or checkpoint.image_size),
        settings.batch_size,
        num_workers=process.choose_workers(settings.workers),
        pin_memory=device.type == "cuda",
        worker_init_fn=_lower_priority,
    )
    if device.type == "cpu":
        embedded = parallel.map_in_parallel(lambda loaded: read_launched(launch(loaded)), batches, device)
    else:
        embedded = threads.overlap(launch, read_launched, batches)
    first = 0
    for vectors, unreadable in embedded:
        embedders.check_finite(vectors, images.paths[first : first + len(vectors)])
        yield embedders.EmbeddedBlock(first, vectors, unreadable)
        first += len(vectors)


def prepare_network(
    checkpoint: Checkpoint, settings: EmbeddingSettings, device: torch.device
) -> Callable[[Batch], _Launched]:
    """Put a copy of a network, for inference, on the device and return what sends a batch through it."""
    size = settings.image_size or checkpoint.image_size
    with report_lack_of_memory("while a network was put on the device", MEMORY_REMEDY):
        descriptor = folding.fold_batch_norms(checkpoint.descriptor, size).to(
            device, memory_format=torch.channels_last
        )  # type: ignore[call-overload]  # torch's types lack memory_format
    descriptor.pool_with(settings.pooling_exponent)
    descriptor.whitens = settings.whiten

    def launch(loaded: Batch) -> _Launched:
        pixels, readable = loaded
        whole = pad_batch(pixels, settings.batch_size, device)
        doing = f"while a batch of {len(whole)} images of {size} px was embedded"
        with report_lack_of_memory(doing, MEMORY_REMEDY):
            batch = normalize_pixels(whole.to(device, non_blocking=True), descriptor.mean, descriptor.std)
            vectors = embed_batch(descriptor, batch, settings.flip, settings.precision)[
                : len(pixels)
            ].float()
            return _Launched(
                vectors.to("cpu", non_blocking=device.type == "cuda"), readable, mark_arrival(device)
            )

    return launch


def read_launched(launched: _Launched) -> tuple[Float32s, Bools]:
    """Wait for a batch's vectors [n, d]; return them with which images cannot be read [n]."""
    if launched.arrived is not None:
        launched.arrived.synchronize()
    vectors = launched.vectors.numpy()
    unreadable = ~launched.readable.numpy()
    vectors[unreadable] = 0
    return vectors, unreadable


@torch.inference_mode()
def embed_batch(descriptor: nn.Module, pixels: Tensor, flip: bool = False, precision: str = "32") -> Tensor:
    """Embed normalised images [n, 3, s, s] as unit vectors [n, d]; `flip` is as for `embed_views`."""
    with autocast(pixels.device, precision):
        return embed_views(
            lambda view: descriptor(view.contiguous(memory_format=torch.channels_last)), pixels, flip
        )


def embed_views(embed: Callable[[Tensor], Tensor], pixels: Tensor, flip: bool) -> Tensor:
    """Return the unit vectors [n, d] of images [n, 3, s, s] or, with `flip`, the unit mean with those of their mirror images."""
    vectors = embed(pixels)
    return nn.functional.normalize(vectors + embed(pixels.flip(3))) if flip else vectors


def _lower_priority(_: int) -> None:
    """Give data-loading workers a lower priority than the network, which shares the cores with them."""
    os.nice(10)


# below, one thread of torch computes 1 × 1 convolutions in another way; the vector loops of a CPU end evenly
ALIGNED_IMAGES = 16


def pad_batch(pixels: Tensor, batch_size: int, device: torch.device) -> Tensor:
    """On a CPU, append black images to [n, …] so that n is a multiple of ALIGNED_IMAGES, or of a smaller `batch_size`.

    With a `batch_size` that is a multiple of ALIGNED_IMAGES, an image's vector then has the same bits in every batch and at every
    place in it.
    """
    if device.type != "cpu":
        return pixels
    missing = -len(pixels) % min(ALIGNED_IMAGES, batch_size)
    return functional.pad(pixels, (0, 0) * (pixels.ndim - 1) + (0, missing)) if missing else pixels
