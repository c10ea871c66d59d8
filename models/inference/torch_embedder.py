"""A checkpoint's network, run by torch."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from image_copies.models.device import best_device
from image_copies.models.inference.embed import image_sizes, measure_memory_format, prepare_network, read_launched
from image_copies.models.inference.embedders import Embedder, Squares, Waiting
from image_copies.models.inference.parallel import use_one_thread
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor


def load_embedder(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Load a checkpoint on the best device.

    Raises:
        UserError: The file is missing or not a checkpoint, or there are more processes than GPUs.
    """
    loaded, device = load_descriptor(checkpoint), best_device()
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False  # its errors of 1e-3 would belong into another index than the CPU's vectors
    measure_memory_format(loaded, settings)
    begin, size = prepare_network(loaded, settings, device), max(image_sizes(settings, loaded.image_size))

    def launch(squares: Squares) -> Waiting:
        pixels = torch.from_numpy(squares[size])
        if device.type == "cuda":
            pixels = pixels.pin_memory()  # copied to the GPU while it works on the batch before
        launched = begin({size: (pixels, torch.ones(len(pixels), dtype=torch.bool))})
        return lambda: read_launched(launched)[0]

    def embed(squares: Squares) -> NDArray[np.float32]:
        return launch(squares)()

    if device.type == "cpu":
        return Embedder((size,), loaded.descriptor.dimensions, embed, use_one_thread)
    return Embedder((size,), loaded.descriptor.dimensions, embed, None, launch)
