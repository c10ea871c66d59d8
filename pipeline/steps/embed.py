"""Step 02's work: embed images into a vectors file, in shards that are written as soon as they are finished.

A killed run loses at most the shards that were being worked on: one, or on a cluster one for each worker. Models that are to
embed the same images do so together, each into its own shards, so that a file is read once.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import StorageError, UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.process import choose_workers, usable_cores
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.models.device import best_device, describe_device
from image_copies.models.inference.embed import LoadedBatches, Network, embed_together, load_batches, measure_memory_format
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.pipeline.run.step import fingerprint
from image_copies.pipeline.steps.vectors import is_whole, join_shards, make_shard_folder, report_unreadable
from image_copies.submissions.vectors.files import write_vectors
from image_copies.submissions.vectors.parquet import check_parquet

BACKGROUND_ID = "background/{}"  # no image has such an id: ids of a data set are file names


def write_background(checkpoint: Path, output: Path) -> list[str]:
    """Write the background of a joined descriptor to a vectors file, to be joined with the training images'; return its ids.

    With a few hundred training images of one's own, PCA and query normalisation have thousands of vectors to go by.

    Raises:
        UserError: The descriptor has no background, or the disk is full.
    """
    descriptor = load_descriptor(checkpoint).descriptor
    if not isinstance(descriptor, JoinedDescriptor) or not len(descriptor.background):
        raise UserError(
            f"{checkpoint} brings no background vectors. Remove `background: true` from the recipe, or name a descriptor that "
            "export.py joined from a run with a query normalisation."
        )
    vectors = descriptor.background.float().numpy()
    ids = [BACKGROUND_ID.format(row) for row in range(len(vectors))]
    write_vectors(output, ids, [vectors], np.zeros(len(vectors), bool))
    return ids


MIN_FOLDER_SHARD, FOLDER_SHARDS = 1000, 100  # images of a shard at least, and shards, about, of a folder outside a run
_LOADED: dict[Path, LoadedBatches] = {}  # of the shard that comes next, by its key


@dataclass(frozen=True)
class EmbeddingShard:
    """Consecutive images that each network embeds into its own file."""

    images: ImageSet
    outputs: dict[int, Path]  # files that are not there yet, by the network's number

    @property
    def key(self) -> Path:
        """Its first output, which tells it from others."""
        return next(iter(self.outputs.values()))


@dataclass(frozen=True)
class EmbeddingJob:
    """A vectors file to be made of a set of images."""

    checkpoint: Path
    settings: EmbeddingSettings
    output: Path

    def makes_shards_with(self, other: "EmbeddingJob") -> bool:
        """Whether both embed the same images at once: in shards and batches of the same sizes, for equal bits."""
        mine, others = self.settings, other.settings
        return (mine.shard, mine.batch_size) == (others.shard, others.batch_size)


def embed_to_file(
    checkpoint: Path,
    images: ImageSet,
    settings: EmbeddingSettings,
    output: Path,
    background: bool = False,
    find_others: Callable[[], list[EmbeddingJob]] = list,
) -> None:
    """Embed all images into `output`; unreadable ones are reported and listed with their reasons in `<output>.unreadable.txt`.

    Shards have fixed bounds, so that the file is bit-identical whoever makes them (`data/shards.py`). With `background` the
    vectors that the checkpoint brings along follow those of the images. `find_others` returns what is to be made of the same
    images next. Where there is anything to embed, the shards of these are made along the way and found when their turn comes;
    where they hinder it, they are left to their turn.

    Raises:
        UserError: when a checkpoint cannot be loaded or brings no background that is asked for, or the disk is full.
    """
    own, of_images = EmbeddingJob(checkpoint, settings, output), fingerprint(images)
    folder = make_shard_folder(output, _digest(own, of_images))
    files = _list_shards(images, settings.shard, folder)
    if not all(map(is_whole, files)):
        others = [other for other in find_others() if other.makes_shards_with(own)]
        failure = _make_shards_together(own, others, images, of_images) if others else None
        if failure is not None or not others:
            _make_shards([own], images, of_images)
        if failure is not None:  # not before: where this model fails of the same alone, its error says it
            print(f"  the next models wait for their turn, not embedded together with this one: {failure}", flush=True)
    ids = images.ids
    if background:
        files.append(folder / "background.h5")
        ids = [*ids, *write_background(checkpoint, files[-1])]
    unreadable = join_shards(output, ids, files, None if background else images.paths)
    report_unreadable(images, unreadable[: len(images)], output)


def _make_shards_together(own: EmbeddingJob, others: list[EmbeddingJob], images: ImageSet, of_images: Any) -> str | None:
    """Make the shards of several models; return why that failed, perhaps for lack of memory for all, or by another's fault.

    The error itself is not returned: its traceback would keep the networks in memory.
    """
    try:
        _make_shards([own, *others], images, of_images)
    except StorageError:
        raise
    except UserError as error:
        return str(error)
    return None


def _make_shards(together: list[EmbeddingJob], images: ImageSet, of_images: Any) -> None:
    """Embed the images of those shards that the first of several models lacks, with all of these models."""
    size, folders = together[0].settings.shard, [make_shard_folder(one.output, _digest(one, of_images)) for one in together]
    left = [number for number, file in enumerate(_list_shards(images, size, folders[0])) if not is_whole(file)]
    shards = _divide(images, size, folders, left)
    networks = tuple(one.checkpoint.absolute() for one in together)  # workers have other current folders
    work = ShardWork(
        name=f"embedding {together[0].output.stem}",
        unit="image",
        open=partial(_open_networks, networks, [one.settings for one in together]),
        work=_embed_shard,
        size=_count_images,
        inputs=networks,
        folder=folders[0],
        opened_as=" ".join(
            f"{path} {fingerprint(path)} {one.settings.what_makes_shards()}" for path, one in zip(networks, together, strict=True)
        ),
        uses_gpu=True,
        looks_ahead=True,
    )
    try:
        for _ in run_shards(work, shards, len(images), len(images) - sum(map(_count_images, shards))):
            pass  # the results are the files
    finally:
        _LOADED.clear()


def embed_folder(checkpoint: Path, folder: Path, output: Path, workers: int | None = None) -> None:
    """Embed any folder outside a run; ids are the paths relative to it, without extension.

    Raises:
        UserError: when the folder holds no image, the checkpoint cannot be loaded, or the disk is full.
    """
    check_parquet(output)
    images, defaults = find_images(folder, naming="path"), EmbeddingSettings()
    shard = min(defaults.shard, max(MIN_FOLDER_SHARD, len(images) // FOLDER_SHARDS))  # so that a few workers share a small folder
    embed_to_file(checkpoint, images, defaults.model_copy(update={"workers": workers, "shard": shard}), output)
    print(f"vectors: {output}", flush=True)


def _list_shards(images: ImageSet, size: int, folder: Path) -> list[Path]:
    """List the files of shards of `size` images, numbered from 0."""
    return [folder / f"{number:06d}.h5" for number in range(-(-len(images) // size))]


def _divide(images: ImageSet, size: int, folders: list[Path], numbers: list[int]) -> list[EmbeddingShard]:
    """Return the shards of `size` images with these numbers; their outputs are in the folders, where they are not whole."""
    files = [_list_shards(images, size, folder) for folder in folders]
    shards = []
    for number in numbers:
        part = slice(number * size, (number + 1) * size)
        some = ImageSet(images.ids[part], [path.absolute() for path in images.paths[part]])
        shards.append(EmbeddingShard(some, {i: file[number] for i, file in enumerate(files) if not is_whole(file[number])}))
    return shards


def _count_images(shard: EmbeddingShard) -> int:
    return len(shard.images)


def _open_networks(checkpoints: Sequence[Path], settings: list[EmbeddingSettings]) -> list[Network]:
    _report_device(choose_workers(settings[0].workers))
    networks = [(load_descriptor(path), how) for path, how in zip(checkpoints, settings, strict=True)]
    for loaded, how in networks:
        measure_memory_format(loaded, how)
    return networks


@cache
def _report_device(workers: int) -> None:
    """Print the device and the workers, once for all files of a step."""
    device = describe_device(best_device())
    print(f"  embedding on {device}; {workers} workers decode images, {usable_cores()} cores", flush=True)


def _starts_early() -> bool:
    """Whether the next shard's processes start while this one is embedded; not next to the threads that compute on a CPU."""
    return best_device().type == "cuda"


def _embed_shard(networks: list[Network], shard: EmbeddingShard, place: Place) -> None:
    """Embed the images of a shard and write its files; the vectors of all but the first network are kept until then."""
    images, chosen = shard.images, [networks[number] for number in shard.outputs]
    if place.decoders is not None:
        chosen = [(loaded, how.model_copy(update={"workers": place.decoders})) for loaded, how in chosen]
    settings = chosen[0][1]
    unreadable = [np.zeros(len(images), bool) for _ in chosen]
    kept: list[list[NDArray[np.float32]]] = [[] for _ in chosen[1:]]
    batches = _LOADED.pop(shard.key, None)
    _LOADED.clear()  # of a shard that another worker got
    ahead = 2 * choose_workers(settings.workers) * settings.batch_size  # images that the processes have taken, but for the last

    def vectors() -> Iterator[NDArray[np.float32]]:
        for blocks in embed_together(chosen, images, batches):
            done = blocks[0].first + len(blocks[0].vectors)
            for flags, block in zip(unreadable, blocks, strict=True):
                flags[block.first : done] = block.unreadable
            for own, block in zip(kept, blocks[1:], strict=True):
                own.append(block.vectors)
            place.advance(len(blocks[0].vectors))
            upcoming = place.upcoming
            if upcoming is not None and upcoming.key not in _LOADED and len(images) - done <= ahead and _starts_early():
                _LOADED[upcoming.key] = load_batches([networks[number] for number in upcoming.outputs], upcoming.images)
            yield blocks[0].vectors
        bad = [images.paths[row] for row in np.flatnonzero(np.logical_or.reduce(unreadable)).tolist()]
        place.report_absent([path for path in bad if not path.exists()])

    outputs = list(shard.outputs.values())
    write_vectors(outputs[0], images.ids, vectors(), unreadable[0])
    for output, blocks, flags in zip(outputs[1:], kept, unreadable[1:], strict=True):
        write_vectors(output, images.ids, iter(blocks), flags)


def _digest(embedding: EmbeddingJob, of_images: Any) -> str:
    """Return a digest of what the shards are made from, so that shards of anything else are never used."""
    made_from = [fingerprint(embedding.checkpoint), of_images, embedding.settings.what_makes_shards()]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
