"""A checkpoint's network, run by torch."""

from dataclasses import replace
from pathlib import Path

import torch

from ..device import best_device
from ..network.checkpoint import Checkpoint, load_descriptor
from ..network.joined import JoinedDescriptor, reduce_for_views
from .embed import prepare_network, read_launched
from .embedders import Embedder, Squares, Waiting, open_once
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
    return _prepare(loaded, settings, device)


def _prepare(loaded: Checkpoint, settings: EmbeddingSettings, device: torch.device) -> Embedder:
    size = settings.image_size or loaded.image_size
    begin = prepare_network(loaded, settings, device)

    def launch(squares: Squares) -> Waiting:
        pixels = torch.from_numpy(squares[size])
        if device.type == "cuda":
            pixels = pixels.pin_memory()  # copied to the GPU while it works on the batch before
        launched = begin((pixels, torch.ones(len(pixels), dtype=torch.bool)))
        return lambda: read_launched(launched)[0]

    def open_views() -> Embedder:
        reduced = reduce_for_views(size)
        assert isinstance(loaded.descriptor, JoinedDescriptor)
        of_views = replace(loaded, descriptor=loaded.descriptor.for_views(), image_size=reduced)
        return _prepare(of_views, settings.model_copy(update={"image_size": reduced}), device)

    on_gpu = device.type != "cpu"
    return Embedder(
        sizes=(size,),
        dimensions=loaded.descriptor.dimensions,
        embed=lambda squares: launch(squares)(),
        side_by_side=None if on_gpu else use_one_thread,
        launch=launch if on_gpu else None,
        open_views=open_once(open_views) if isinstance(loaded.descriptor, JoinedDescriptor) else None,
        made_by="torch",
    )
