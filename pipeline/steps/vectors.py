"""Vectors files of steps 02 and 03: joined from shards, or written block by block."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from image_copies.data.arrays import Bools, Float32s
from image_copies.data.decode import list_unreadable
from image_copies.data.errors import StorageError, UserError, line_of
from image_copies.data.images import ImageSet
from image_copies.data.remote import remove_folder
from image_copies.models.inference.embedders import EmbeddedBlock
from image_copies.submissions.vectors.files import iterate_vectors, open_vectors, write_vectors


def make_shard_folder(output: Path, digest: str) -> Path:
    """Make the folder of the shards of `output`, unless a stopped run has left it.

    The digest is of all that the shards are made from, so that shards of anything else are never used.
    """
    folder = output.absolute().parent / f".{output.stem}-shards-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_whole(shard: Path) -> bool:
    """Whether a shard is complete; a truncated one is written again."""
    try:
        return bool(open_vectors(shard).ids)
    except StorageError:
        raise
    except UserError:
        return False


def join_shards(output: Path, ids: list[str], shards: Sequence[Path]) -> Bools:
    """Write the vectors of all shards to one file, remove them, and return the flags of unreadable images [n].

    Raises:
        UserError: when a shard is missing or damaged, or the disk is full.
    """
    unreadable = np.concatenate([open_vectors(shard).unreadable for shard in shards])
    blocks: Iterable[Float32s] = (block for shard in shards for block in iterate_vectors(shard))
    write_vectors(output, ids, blocks, unreadable)
    remove_folder(shards[0].parent)
    return unreadable


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
    list_unreadable(listed, bad)
    if bad:
        print(
            f"  {len(bad)} of {len(images)} images cannot be read and match nothing, the first is {line_of(bad[0])}; "
            f"all, with reasons: {listed}"
        )
