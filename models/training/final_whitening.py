"""Whitening of the descriptor once its last stage has ended, learnt on unlabelled images (MultiGrain, section 3.4)."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import normalize_pixels
from augmentations.randomness import generator_for
from data.errors import UserError
from data.images import ImageSet, find_images
from data.loader import CleanImages
from data.process import choose_workers
from models.network.descriptor import Descriptor
from models.network.whitening import fit_whitening
from models.settings import EmbeddingSettings, ModelSettings

WHITENING_IMAGES = 20_000  # the paper takes 20,000 of YFCC100M (MultiGrain, section 4.1)


def choose_whitening_images(settings: ModelSettings, seed: int, overlays: ImageSet, classes: ImageSet) -> ImageSet:
    """The images to whiten with: of the recipe's own folder in a seeded order, otherwise overlays, then classes, each once.

    Raises:
        UserError: The folder holds no image.
    """
    if settings.whitening_images is not None:
        found = find_images(settings.whitening_images, naming="path")
        return found.select([found.ids[row] for row in generator_for(seed, 0, "whitening").permutation(len(found))])
    pasted = set(overlays.ids)
    others = [row for row, image_id in enumerate(classes.ids) if image_id not in pasted]
    ids = [*overlays.ids, *(classes.ids[row] for row in others)]
    return ImageSet(ids, [*overlays.paths, *(classes.paths[row] for row in others)])


def check_whitening(descriptor: Descriptor, images: int) -> None:
    """UserError, before training rather than after it, where so few images cannot whiten the descriptor's vectors."""
    if descriptor.settings.whiten and images <= descriptor.dimensions:
        raise UserError(
            f"whiten: {images} training images cannot whiten {descriptor.dimensions} dimensions, it takes more images than "
            "dimensions. Lower descriptor.dimensions, leave whiten out, add training images, or name a folder of other images "
            "(whitening_images)."
        )


@torch.no_grad()
def learn_whitening(
    descriptor: Descriptor, images: ImageSet, workers: int | None, embedding: EmbeddingSettings, trained_at: int
) -> None:
    """Fit the descriptor's whitening on clean images as they will be embedded: at the size s* and the exponent p* of `embedding`.

    Args:
        descriptor: Changed in place.
        images: The first 20,000 count, where they can be read; nothing is known of their classes.
        workers: Processes that decode; None for as many as there are cores.
        embedding: How the descriptor will embed.
        trained_at: Image size where `embedding` names none.

    Raises:
        UserError: Too few images can be read, or all vectors are the same.
    """
    device = next(descriptor.parameters()).device
    descriptor.eval()
    found: list[Tensor] = []
    some = ImageSet(images.ids[:WHITENING_IMAGES], images.paths[:WHITENING_IMAGES])
    loader = DataLoader(CleanImages(some, embedding.image_size or trained_at), 64, num_workers=choose_workers(workers))
    with descriptor.pooled_with(embedding.pooling_exponent):
        for pixels, readable in tqdm(loader, desc="whitening", unit="batch", leave=False):
            if readable.any():
                shown = normalize_pixels(pixels[readable].to(device), descriptor.mean, descriptor.std)
                found.append(descriptor(shown, raw=True).float())
    whitening = fit_whitening(torch.cat(found) if found else torch.zeros(0, descriptor.dimensions))
    descriptor.whitening_mean.copy_(whitening.mean)
    descriptor.whitening_matrix.copy_(whitening.matrix)
