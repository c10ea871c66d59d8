"""A checkpoint's network, run by torch."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from image_copies.data.arrays import Float32s

from ..device import best_device
from ..network.checkpoint import Checkpoint, load_descriptor
from ..network.joined import JoinedDescriptor
from .embed import prepare_network, read_launched
from .embedders import Embedder, Squares, Waiting
from .parallel import use_one_thread
from .settings import EmbeddingSettings


def load_embedder(checkpoint: Path, settings: EmbeddingSettings) -> Embedder:
    """Load a checkpoint on the best device.

    Raises:
        UserError: The file is missing or not a checkpoint, or there are more processes than GPUs.
    """
    loaded, device = load_descriptor(checkpoint), best_device()
    if device.type == "cuda":
        # its errors of 1e-3 would belong into another index than the CPU's vectors
        torch.backends.cudnn.allow_tf32 = False
    size = settings.image_size or loaded.image_size

    def prepare(checkpoint: Checkpoint) -> Callable[[Squares], Waiting]:
        begin = prepare_network(checkpoint, settings, device)

        def launch(squares: Squares) -> Waiting:
            pixels = torch.from_numpy(squares[size])
            if device.type == "cuda":
                pixels = pixels.pin_memory()  # copied to the GPU while it works on the batch before
            launched = begin((pixels, torch.ones(len(pixels), dtype=torch.bool)))
            return lambda: read_launched(launched)[0]

        return launch

    launch, preparing = prepare(loaded), threading.Lock()

    @cache
    def prepare_alone() -> Callable[[Squares], Waiting]:
        if not isinstance(loaded.descriptor, JoinedDescriptor):
            return launch
        return prepare(replace(loaded, descriptor=loaded.descriptor.for_views()))

    def embed(squares: Squares) -> Float32s:
        return launch(squares)()

    def embed_alone(squares: Squares) -> Float32s:
        with preparing:
            prepared = prepare_alone()
        return prepared(squares)()

    if device.type == "cpu":
        return Embedder((size,), loaded.descriptor.dimensions, embed, use_one_thread, alone=embed_alone)
    return Embedder(
        sizes=(size,),
        dimensions=loaded.descriptor.dimensions,
        embed=embed,
        side_by_side=None,
        launch=launch,
        alone=embed_alone,
    )
