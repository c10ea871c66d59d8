"""Images → a vectors file, with progress and a list of what could not be read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from data.images import ImageSet
from models.checkpoint import load_descriptor
from models.embed import embed_images
from models.settings import EmbeddingSettings
from submissions.vectors import write_vectors


def embed_to_file(checkpoint: Path, images: ImageSet, settings: EmbeddingSettings, output: Path) -> None:
    """Embed all images into `output`; unreadable ones are named in `<output>.unreadable.txt` and told."""
    unreadable = np.zeros(len(images), bool)
    blocks = embed_images(load_descriptor(checkpoint), images, settings)

    def vectors() -> Iterator[NDArray[np.float32]]:
        with tqdm(total=len(images), desc=f"embedding {output.stem}", unit="image", leave=False) as bar:
            for block in blocks:
                unreadable[block.first : block.first + len(block.vectors)] = block.unreadable
                bar.update(len(block.vectors))
                yield block.vectors

    write_vectors(output, images.ids, vectors(), unreadable)
    listed = output.with_suffix(".unreadable.txt")
    names = [str(path) for path, bad in zip(images.paths, unreadable, strict=True) if bad]
    listed.unlink(missing_ok=True)
    if names:
        listed.write_text("\n".join(names) + "\n", encoding="utf-8")
        print(f"  {len(names)} of {len(images)} images cannot be read and match nothing, the first is {names[0]}; all: {listed}")
