"""Step 01 of a handmade model: its whitening is fitted on training images."""

from pathlib import Path

import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from augmentations.dataset import normalize_pixels
from data.errors import UserError
from data.images import ImageSet
from data.loader import CleanImages
from data.process import choose_workers
from models.network.checkpoint import save_descriptor
from models.network.handmade import IMAGE_SIZE, HandmadeDescriptor
from models.settings import HandmadeModelSettings
from models.training.files import stage_checkpoint

MAX_WHITENING_IMAGES = 20_000


@torch.no_grad()
def whiten_handmade(settings: HandmadeModelSettings, images: ImageSet, folder: Path, workers: int | None) -> Path:
    """Fit the whitening and write the checkpoint of stage 0.

    Args:
        settings: The model.
        images: Training images; the first MAX_WHITENING_IMAGES are used.
        folder: The training's folder.
        workers: Data-loading workers; None for this process's share of the cores.

    Returns:
        The path of the checkpoint.

    Raises:
        UserError: No more images can be read than the descriptor has dimensions.
    """
    descriptor = HandmadeDescriptor(settings.descriptor_settings()).eval()
    chosen = images.select(images.ids[:MAX_WHITENING_IMAGES])
    features = []
    for pixels, readable in tqdm(
        DataLoader(CleanImages(chosen, IMAGE_SIZE), 128, num_workers=choose_workers(workers)), leave=False
    ):
        batch = normalize_pixels(pixels[readable], descriptor.mean, descriptor.std)
        if len(batch):
            features.append(descriptor(batch, raw=True))
    if not features:
        raise UserError(f"none of {len(chosen)} training images can be read; the first is {chosen.paths[0]}. Replace them.")
    found = torch.cat(features)
    descriptor.whiten(found)
    path = stage_checkpoint(folder, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_descriptor(path, descriptor, IMAGE_SIZE, {"whitened_on": len(found)})
    return path
