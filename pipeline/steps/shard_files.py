"""Vectors files that are made in shards: each shard is a separate vectors file, and all of them are joined at the end."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import StorageError, UserError
from image_copies.data.remote import remove_folder
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


def join_shards(output: Path, ids: list[str], shards: Sequence[Path], files: Sequence[Path] | None = None) -> NDArray[np.bool_]:
    """Write the vectors of all shards to one file, remove them, and return the flags of unreadable images [n].

    `files` [n] are the images, which Parquet names.

    Raises:
        UserError: when a shard is missing or damaged, or the disk is full.
    """
    unreadable = np.concatenate([open_vectors(shard).unreadable for shard in shards])
    blocks: Iterable[NDArray[np.float32]] = (block for shard in shards for block in iterate_vectors(shard))
    write_vectors(output, ids, blocks, unreadable, files=files)
    remove_folder(shards[0].parent)
    return unreadable
