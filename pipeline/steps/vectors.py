"""Vectors files of steps 02 and 03: joined from shards, or taken from what was made elsewhere."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import StorageError, UserError
from image_copies.data.remote import remove_folder
from image_copies.models.inference.settings import VectorsModelSettings
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.scoring.any_vectors import read_set
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


def take_vectors(model: VectorsModelSettings, part: str, ids: list[str], output: Path) -> None:
    """Write the vectors of the images of one of the SETS, in their order and of unit length, as step 02 does.

    Raises:
        UserError: when a file is missing or invalid, an image has no vector, or the dimensions are not those of the training
            vectors.
    """
    path: Path = getattr(model, part)
    if not path.is_file():
        step = " Embed queries/query_images of the run, which step 00 wrote." if part == "synthetic" else ""
        raise UserError(f"{path}: no such file. The key `{part}` of a model of kind vectors names it.{step}")
    found, dimensions = read_set(path, "reference" if part == "reference" else "query"), open_vectors(model.training).dimensions
    if found.dimensions != dimensions:
        raise UserError(
            f"{path} has vectors of {found.dimensions} dimensions, {model.training} of {dimensions}. Name files of one network."
        )
    missing = sorted(set(ids).difference(found.ids))
    if missing:
        raise UserError(
            f"{path} has no vector of {len(missing)} of the {len(ids)} {part} images, the first is {missing[0]!r}; its own first "
            f"id is {found.ids[0]!r}. Ids are the images' file names without extension."
        )
    chosen = found.rows(ids)
    write_vectors(output, ids, [scale_to_unit_length(chosen.vectors)], chosen.unreadable)
