"""Whitening of handmade models, fitted on training images."""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data import preprocessing, process
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet

from ..network.base import ImageDescriptor
from ..network.checkpoint import save_descriptor
from ..network.handmade import IMAGE_SIZE, HandmadeDescriptor
from ..network.settings import HandmadeSettings
from .parallel import use_one_thread

MAX_WHITENING_IMAGES = 20_000
LEAST_IMAGES = 3  # that two dimensions, the fewest of a descriptor, are whitened on


def whiten_handmade(settings: HandmadeSettings, images: ImageSet, path: Path, workers: int | None) -> None:
    """Fit the whitening on the first MAX_WHITENING_IMAGES, and write the checkpoint.

    Raises:
        UserError: Fewer than 3 images can be read.
    """
    descriptor, count = fit_handmade(settings, images.select(images.ids[:MAX_WHITENING_IMAGES]), workers)
    if descriptor.settings.dimensions < settings.dimensions:
        print(
            f"  {settings.kind}: {count} training images can be read, which whiten {descriptor.dimensions} dimensions instead of "
            f"{settings.dimensions}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    save_descriptor(path, descriptor, IMAGE_SIZE, {"whitened_on": count})


@torch.no_grad()
def fit_handmade(
    settings: HandmadeSettings, images: ImageSet, workers: int | None
) -> tuple[HandmadeDescriptor, int]:
    """Return a whitened descriptor, of at most one dimension less than the images that can be read, and how many these are.

    Raises:
        UserError: Fewer than 3 images can be read.
    """
    descriptor = HandmadeDescriptor(settings).eval()
    found = compute_raw(descriptor, images, IMAGE_SIZE, 128, workers)
    if len(found) < LEAST_IMAGES:
        raise UserError(
            f"{len(found)} of {len(images)} training images can be read, {settings.kind} needs {LEAST_IMAGES}: add some. "
            f"The first image is {images.paths[0]}."
        )
    if len(found) <= descriptor.dimensions:
        descriptor = HandmadeDescriptor(settings.model_copy(update={"dimensions": len(found) - 1})).eval()
    # the last bits of the sums depend on the number of threads: torchrun gives each process one
    with use_one_thread():
        descriptor.whiten(found)
    return descriptor, len(found)


@torch.no_grad()
def compute_raw(
    descriptor: ImageDescriptor, images: ImageSet, size: int, batch: int, workers: int | None
) -> Tensor:
    """Return the raw embeddings [n, d] float32 of the images that can be read, as squares of `size` pixels, in their order."""
    device = next(iter(descriptor.state_dict().values())).device
    found = list[Tensor]()
    loader = DataLoader(
        preprocessing.PreprocessedImages(images, size), batch, num_workers=process.choose_workers(workers)
    )
    for pixels, readable in tqdm(loader, desc="whitening", unit="batch", leave=False):
        if readable.any():
            shown = normalize_pixels(pixels[readable].to(device), descriptor.mean, descriptor.std)
            found.append(descriptor(shown, raw=True).float())
    return torch.cat(found) if found else torch.zeros(0, descriptor.dimensions)
