"""Step 02's work: embed images into a vectors file, in shards that are written as soon as they are finished.

A killed run loses at most the shards that were being worked on: one, or on a cluster one for each worker.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.images import ImageSet, find_images
from data.names import line_of
from data.process import choose_workers, usable_cores
from data.shards import Place, ShardWork, run_shards
from data.unreadable import list_unreadable
from models.device import best_device, describe_device
from models.inference.embed import Batches, embed_images, load_batches, measure_memory_format
from models.network.checkpoint import Checkpoint, load_descriptor
from models.settings import EmbeddingSettings
from pipeline.run.manifest import fingerprint
from pipeline.steps.background import write_background
from pipeline.steps.shard_files import is_whole, join_shards, make_shard_folder
from submissions.vectors.files import write_vectors

_LOADED: dict[Path, Batches] = {}  # of the shard that comes next, by its output


@dataclass(frozen=True)
class EmbeddingShard:
    """Consecutive images that are embedded into a file of their own.

    Attributes:
        images: The images.
        output: The shard's vectors file.
    """

    images: ImageSet
    output: Path


def embed_to_file(
    checkpoint: Path, images: ImageSet, settings: EmbeddingSettings, output: Path, background: bool = False
) -> None:
    """Embed all images into `output`; unreadable ones are reported and listed with their reasons in `<output>.unreadable.txt`.

    Shards have fixed bounds, so that the file is bit-identical whoever makes them (`data/shards.py`).

    Args:
        checkpoint: The network.
        images: The images to embed.
        settings: How they are embedded.
        output: The vectors file to write.
        background: Whether the vectors that the checkpoint brings along follow those of the images.

    Raises:
        UserError: when the checkpoint cannot be loaded or brings no background that is asked for, or the disk is full.
    """
    folder = make_shard_folder(output, _digest(checkpoint, images, settings))
    shards = _divide(images, settings.shard, folder)
    left = [shard for shard in shards if not is_whole(shard.output)]
    ids, files = images.ids, [shard.output for shard in shards]
    if background:
        files.append(folder / "background.h5")
        ids = [*ids, *write_background(checkpoint, files[-1])]
    network = checkpoint.absolute()  # workers have other current folders
    work = ShardWork(
        name=f"embedding {output.stem}",
        unit="image",
        open=partial(_open_network, network, settings),
        work=partial(_embed_shard, settings),
        size=_count_images,
        inputs=(network,),
        folder=folder,
        opened_as=f"{network} {fingerprint(checkpoint)} {settings.what_makes_shards()}",
        uses_gpu=True,
        looks_ahead=True,
    )
    try:
        for _ in run_shards(work, left, len(images), len(images) - sum(map(_count_images, left))):
            pass  # the results are the files
    finally:
        _LOADED.clear()
    unreadable = join_shards(output, ids, files)
    _report_unreadable(images, unreadable[: len(images)], output)


def embed_folder(checkpoint: Path, folder: Path, output: Path, workers: int | None = None) -> None:
    """Embed any folder outside a run; ids are the paths relative to it, without extension.

    Args:
        checkpoint: The network.
        folder: Folder of the images.
        output: The vectors file to write.
        workers: Processes that decode images; None for one per core.

    Raises:
        UserError: when the folder holds no image, the checkpoint cannot be loaded, or the disk is full.
    """
    settings = EmbeddingSettings(workers=workers)
    embed_to_file(checkpoint, find_images(folder, naming="path"), settings, output)
    print(f"vectors: {output}", flush=True)


def _divide(images: ImageSet, size: int, folder: Path) -> list[EmbeddingShard]:
    """Divide images into shards of `size`, numbered from 0."""
    return [
        EmbeddingShard(
            ImageSet(images.ids[first : first + size], [path.absolute() for path in images.paths[first : first + size]]),
            folder / f"{number:06d}.h5",
        )
        for number, first in enumerate(range(0, len(images), size))
    ]


def _count_images(shard: EmbeddingShard) -> int:
    return len(shard.images)


def _open_network(checkpoint: Path, settings: EmbeddingSettings) -> Checkpoint:
    _report_device(choose_workers(settings.workers))
    loaded = load_descriptor(checkpoint)
    measure_memory_format(loaded, settings)
    return loaded


@cache
def _report_device(workers: int) -> None:
    """Print the device and the workers, once for all files of a step."""
    described = describe_device(best_device())
    print(f"  embedding on {described}; {workers} workers decode images, {usable_cores()} cores", flush=True)


def _starts_early() -> bool:
    """Whether the next shard's processes start while this one is embedded; not beside the threads that compute on a CPU."""
    return best_device().type == "cuda"


def _embed_shard(settings: EmbeddingSettings, loaded: Checkpoint, shard: EmbeddingShard, place: Place) -> None:
    """Embed the images of a shard and write its file."""
    images, unreadable = shard.images, np.zeros(len(shard.images), bool)
    if place.decoders is not None:
        settings = settings.model_copy(update={"workers": place.decoders})

    batches = _LOADED.pop(shard.output, None)
    ahead = 2 * choose_workers(settings.workers) * settings.batch_size  # images that the processes have taken, but for the last

    def vectors() -> Iterator[NDArray[np.float32]]:
        for block in embed_images(loaded, images, settings, batches):
            done = block.first + len(block.vectors)
            unreadable[block.first : done] = block.unreadable
            place.advance(len(block.vectors))
            upcoming = place.upcoming
            if upcoming is not None and upcoming.output not in _LOADED and len(images) - done <= ahead and _starts_early():
                _LOADED[upcoming.output] = load_batches(loaded, upcoming.images, settings)
            yield block.vectors
        bad = [images.paths[row] for row in np.flatnonzero(unreadable).tolist()]
        place.report_absent([path for path in bad if not path.exists()])

    write_vectors(shard.output, images.ids, vectors(), unreadable)


def _digest(checkpoint: Path, images: ImageSet, settings: EmbeddingSettings) -> str:
    """Return a digest of what the shards are made from, so that shards of anything else are never used."""
    made_from = [fingerprint(checkpoint), fingerprint(images), settings.what_makes_shards()]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def _report_unreadable(images: ImageSet, unreadable: NDArray[np.bool_], output: Path) -> None:
    listed = output.with_suffix(".unreadable.txt")
    bad = [images.paths[row] for row in np.flatnonzero(unreadable).tolist()]
    list_unreadable(listed, bad)
    if bad:
        print(
            f"  {len(bad)} of {len(images)} images cannot be read and match nothing, the first is {line_of(bad[0])}; "
            f"all, with reasons: {listed}"
        )
