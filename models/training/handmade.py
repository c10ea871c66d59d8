"""Step 01 of a handmade model: its whitening is fitted on training images."""

from pathlib import Path

import torch

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.inference.parallel import use_one_thread
from image_copies.models.inference.settings import HandmadeModelSettings
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.handmade import IMAGE_SIZE, HandmadeDescriptor
from image_copies.models.network.settings import HandmadeSettings
from image_copies.models.training.files import stage_checkpoint
from image_copies.models.training.final_whitening import compute_raw

MAX_WHITENING_IMAGES = 20_000
LEAST_IMAGES = 3  # that two dimensions, the fewest of a descriptor, are whitened on


def whiten_handmade(settings: HandmadeModelSettings, images: ImageSet, folder: Path, workers: int | None) -> Path:
    """Fit the whitening on the first MAX_WHITENING_IMAGES and write the checkpoint of stage 0; return its path.

    Raises:
        UserError: Fewer than 3 images can be read.
    """
    descriptor, count = fit_handmade(settings.descriptor_settings(), images.select(images.ids[:MAX_WHITENING_IMAGES]), workers)
    if descriptor.settings.dimensions < settings.dimensions:
        print(
            f"  {settings.kind}: {count} training images can be read, which whiten {descriptor.dimensions} dimensions instead of "
            f"{settings.dimensions}"
        )
    path = stage_checkpoint(folder, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_descriptor(path, descriptor, IMAGE_SIZE, {"whitened_on": count})
    return path


@torch.no_grad()
def fit_handmade(settings: HandmadeSettings, images: ImageSet, workers: int | None) -> tuple[HandmadeDescriptor, int]:
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
    with use_one_thread():  # the last bits of the sums depend on the number of threads: torchrun gives each process one
        descriptor.whiten(found)
    return descriptor, len(found)
