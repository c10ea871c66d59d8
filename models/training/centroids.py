"""Class centroids of a network, from which drip training rebuilds the class matrix (ISC2021 paper, section 2.5.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.augmentations.dataset import EditedImages, normalize_pixels

from ..device import autocast
from ..network.descriptor import Descriptor

FIRST_CENTROID_EPOCH = -1  # the rebuild uses the edits of epochs −1, −2, …, which training never uses


@torch.no_grad()
def compute_centroids(
    descriptor: Descriptor,
    passes: Sequence[tuple[EditedImages, int]],
    rows: Sequence[int],
    classes: Sequence[int],
    batch_size: int,
    workers: int,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Return the distinct classes of the images `rows`, int64 [c], ascending, and their centroids, float32 [c, d].

    A centroid is the normalised mean over the class's images in all passes: images as they are edited, and the epoch of their
    edits. The descriptor's mode is restored.
    """
    device = next(descriptor.parameters()).device
    was_training = descriptor.training
    descriptor.eval()
    found, place = torch.unique(torch.tensor(classes), return_inverse=True)
    place, on_gpu = place.to(device), device.type == "cuda"
    total = torch.zeros(len(found), descriptor.dimensions, device=device)
    with tqdm(total=len(passes) * len(rows), desc="centroids", unit="image", leave=False) as bar:
        for dataset, epoch in passes:
            keys = [(epoch, row, 0) for row in rows]
            first = 0
            for pixels, _ in DataLoader(
                dataset, batch_size, sampler=keys, num_workers=workers, pin_memory=on_gpu
            ):
                images = normalize_pixels(
                    pixels.to(device, non_blocking=True), descriptor.mean, descriptor.std
                )
                with autocast(device, precision):
                    vectors = descriptor(images)
                total.index_add_(0, place[first : first + len(vectors)], vectors.float())
                first += len(vectors)
                bar.update(len(vectors))
    descriptor.train(was_training)
    return found, functional.normalize(total)
