"""A checkpoint's network, run by torch."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.models.device import best_device, report_lack_of_memory
from image_copies.models.inference.embed import MEMORY_REMEDY, describe_batch, embed_batch, image_sizes, measure_memory_format
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.inference.padding import pad_batch
from image_copies.models.inference.parallel import use_one_thread
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor


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
        count = len(squares[size])
        whole = pad_batch(torch.from_numpy(squares[size]), settings.batch_size, device)
        with report_lack_of_memory(describe_batch(len(whole), size), MEMORY_REMEDY):
            batch = normalize_pixels(whole.to(device), descriptor.mean, descriptor.std)
            return embed_batch(descriptor, batch, sizes, settings.flip, settings.precision)[:count].float().cpu().numpy()

    return Embedder((size,), descriptor.dimensions, embed, use_one_thread if device.type == "cpu" else None)
