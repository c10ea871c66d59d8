"""Vectors files that are written block by block, and lists of what cannot be read."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from image_copies.data import decode
from image_copies.data.arrays import Bools, Float32s
from image_copies.data.errors import line_of
from image_copies.data.images import ImageSet
from image_copies.models.inference.embedders import EmbeddedBlock
from image_copies.submissions.vectors.files import write_vectors


def write_blocks(blocks: Iterable[EmbeddedBlock], images: ImageSet, output: Path) -> None:
    """Write the vectors of images, block by block, and report which cannot be read.

    Raises:
        UserError: when the disk is full.
    """
    unreadable = np.zeros(len(images), bool)

    def read() -> Iterator[Float32s]:
        for block in blocks:
            unreadable[block.first : block.first + len(block.vectors)] = block.unreadable
            yield block.vectors

    write_vectors(output, images.ids, read(), unreadable)
    report_unreadable(images, unreadable, output)


def report_unreadable(images: ImageSet, unreadable: Bools, output: Path) -> None:
    """List images [n] that cannot be read in OUTPUT.unreadable.txt, with reasons, and print how many there are."""
    listed = output.with_suffix(".unreadable.txt")
    bad = [images.paths[row] for row in np.flatnonzero(unreadable).tolist()]
    decode.list_unreadable(listed, bad)
    if bad:
        print(
            f"  {len(bad)} of {len(images)} images cannot be read and match nothing, the first is {line_of(bad[0])}; "
            f"all, with reasons: {listed}"
        )
