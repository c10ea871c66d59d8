"""Vectors of a folder by a checkpoint's graph, where torch, with which step 02 embeds, is not installed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.images import find_images
from image_copies.data.unreadable import list_unreadable
from image_copies.models.inference.embedders import embed_with_all
from image_copies.models.inference.graph import open_network
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.submissions.vectors.files import write_vectors


def embed_by_graph(checkpoint: Path, folder: Path, output: Path, workers: int | None = None) -> None:
    """Embed a folder as step 02 does; ids are the paths relative to it, without extension.

    Unreadable images are listed with their reasons in `<output>.unreadable.txt`.

    Raises:
        UserError: when the folder holds no image, the checkpoint has no graph, or the disk is full.
    """
    settings, images = EmbeddingSettings(workers=workers), find_images(folder, naming="path")
    unreadable = np.zeros(len(images), bool)

    def embed() -> Iterator[NDArray[np.float32]]:
        for block in embed_with_all([open_network(checkpoint, settings)], images, settings):
            unreadable[block.first : block.first + len(block.vectors)] = block.unreadable
            yield block.vectors

    write_vectors(output, images.ids, embed(), unreadable, files=images.paths)
    list_unreadable(output.with_name(f"{output.name}.unreadable.txt"), [images.paths[row] for row in np.flatnonzero(unreadable)])
    print(f"vectors: {output}", flush=True)
