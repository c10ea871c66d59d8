"""Whitening of the descriptor once its last stage has ended, learnt on unlabelled images (MultiGrain, section 3.4)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import EditedImages, normalize_pixels
from augmentations.settings import AugmentationSettings
from data.cache import SquareImages
from data.errors import UserError
from data.process import choose_workers
from models.network.descriptor import Descriptor
from models.network.whitening import fit_whitening
from models.settings import ModelSettings

WHITENING_IMAGES = 20_000  # the paper takes 20,000 of YFCC100M (MultiGrain, section 4.1)


def check_whitening(descriptor: Descriptor, images: int) -> None:
    """UserError, before training rather than after it, where so few images cannot whiten the descriptor's vectors."""
    if descriptor.settings.whiten and images <= descriptor.dimensions:
        raise UserError(
            f"whiten: {images} training images cannot whiten {descriptor.dimensions} dimensions, it takes more images than "
            "dimensions. Lower descriptor.dimensions, leave whiten out, or add training images."
        )


@torch.no_grad()
def learn_whitening(
    descriptor: Descriptor, parts: Sequence[tuple[SquareImages, list[int]]], settings: ModelSettings, size: int, seed: int
) -> None:
    """Fit the descriptor's whitening on clean images, whose labels are not looked at."""
    device = next(descriptor.parameters()).device
    descriptor.eval()
    found: list[Tensor] = []
    for squares, rows in parts:
        keys = [(0, row, 0) for row in rows][: WHITENING_IMAGES - sum(map(len, found))]
        clean = EditedImages(squares, AugmentationSettings(family="none"), size, seed)
        loader = DataLoader(clean, 128, sampler=keys, num_workers=choose_workers(settings.workers))
        for pixels, _ in tqdm(loader, desc="whitening", unit="batch", leave=False):
            found.append(descriptor(normalize_pixels(pixels.to(device), descriptor.mean, descriptor.std), raw=True).float())
    whitening = fit_whitening(torch.cat(found))
    descriptor.whitening_mean.copy_(whitening.mean)
    descriptor.whitening_matrix.copy_(whitening.matrix)
