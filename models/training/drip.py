"""Drip training: the class matrix grows and is rebuilt whole from the backbone's own centroids (ISC2021 paper, 2.5.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import EditedImages, normalize_pixels
from models.device import autocast
from models.network.descriptor import Descriptor

EDITED_PER_CLASS = 4  # beside one embedding of the clean image, as in the paper
CENTROID_EPOCH = -1  # edits of the rebuild come from epochs −1, −2, …, which training never uses


@torch.no_grad()
def compute_centroids(
    descriptor: Descriptor,
    clean: EditedImages,
    edited: EditedImages,
    rows: Sequence[int],
    classes: Sequence[int],
    batch_size: int,
    workers: int,
    precision: str,
    edited_per_class: int = EDITED_PER_CLASS,
) -> tuple[Tensor, Tensor]:
    """The classes [c] that occur, in order, and their unit centroids [c, d] (ISC2021 paper, 2.5.1).

    A centroid is the mean of one embedding of each clean image of the class and `edited_per_class` of edited ones.

    Args:
        descriptor: Left in the mode, training or evaluation, that it was in.
        clean: The images unedited.
        edited: The same images, edited.
        rows: Rows of the images to embed.
        classes: The class of each of `rows`.
        batch_size: Images per batch.
        workers: Processes that edit images.
        precision: "32", "bf16" or "16".
        edited_per_class: Edited versions of each image.
    """
    device = next(descriptor.parameters()).device
    was_training = descriptor.training
    descriptor.eval()
    found, place = torch.unique(torch.tensor(classes), return_inverse=True)
    place, on_gpu = place.to(device), device.type == "cuda"
    total = torch.zeros(len(found), descriptor.dimensions, device=device)
    passes = [(clean, CENTROID_EPOCH)] + [(edited, CENTROID_EPOCH - number) for number in range(edited_per_class)]
    with tqdm(total=len(passes) * len(rows), desc="centroids", unit="image", leave=False) as bar:
        for dataset, epoch in passes:
            keys = [(epoch, row, 0) for row in rows]
            first = 0
            for pixels, _ in DataLoader(dataset, batch_size, sampler=keys, num_workers=workers, pin_memory=on_gpu):
                images = normalize_pixels(pixels.to(device, non_blocking=True), descriptor.mean, descriptor.std)
                with autocast(device, precision):
                    vectors = descriptor(images)
                total.index_add_(0, place[first : first + len(vectors)], vectors.float())
                first += len(vectors)
                bar.update(len(vectors))
    descriptor.train(was_training)
    return found, functional.normalize(total)
