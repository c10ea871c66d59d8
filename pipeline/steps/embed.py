"""Step 02's work: embed images into a vectors file, in shards that are written as soon as they are finished.

A killed run loses at most one shard per process.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import distributed
from tqdm import tqdm

from data.errors import StorageError, UserError
from data.images import ImageSet, find_images
from data.names import line_of
from data.process import choose_workers, print_once, process_count, process_rank, usable_cores
from data.remote import remove_folder
from data.unreadable import list_unreadable
from models.device import best_device, describe_device
from models.distributed import report_lost_process
from models.inference.embed import embed_images
from models.network.checkpoint import Checkpoint, load_descriptor
from models.settings import EmbeddingSettings
from pipeline.run.manifest import fingerprint
from submissions.vectors.files import describe_vectors, iterate_vectors, write_vectors

BARRIER_TIMEOUT = timedelta(hours=24)  # processes wait for the slowest at most this long


def embed_to_file(checkpoint: Path, images: ImageSet, settings: EmbeddingSettings, output: Path) -> None:
    """Embed all images into `output`; unreadable ones are reported and listed with their reasons in `<output>.unreadable.txt`.

    With n processes (torchrun) each embeds every n-th shard, and the first one concatenates them. Shards have fixed bounds, so
    that the file is bit-identical for any number of processes.

    Args:
        checkpoint: The network.
        images: The images to embed.
        settings: How they are embedded.
        output: The vectors file to write.

    Raises:
        UserError: when the checkpoint cannot be loaded, a process is lost, or the disk is full.
    """
    rank, ranks = process_rank(), process_count()
    _report_device(choose_workers(settings.workers))
    loaded = load_descriptor(checkpoint)
    folder = output.parent / f".{output.stem}-shards-{_digest(checkpoint, images, settings)}"
    folder.mkdir(parents=True, exist_ok=True)
    bounds = list(range(0, len(images), settings.shard))
    shards = [folder / f"{number:06d}.h5" for number in range(len(bounds))]
    with tqdm(total=len(images), desc=f"embedding {output.stem}", unit="image", leave=False, disable=rank > 0) as bar:
        for number in range(rank, len(shards), ranks):
            part = slice(bounds[number], bounds[number] + settings.shard)
            own = ImageSet(images.ids[part], images.paths[part])
            if not _is_whole(shards[number]):
                _embed_shard(loaded, own, settings, shards[number], bar)
            else:
                bar.update(len(own))
    _wait_for_all(ranks)
    if rank == 0:
        unreadable = np.concatenate([describe_vectors(path).unreadable for path in shards])
        write_vectors(output, images.ids, (block for path in shards for block in iterate_vectors(path)), unreadable)
        remove_folder(folder)
        _report_unreadable(images, unreadable, output)
    _wait_for_all(ranks)  # so that the next step finds the whole file


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
    print_once(f"vectors: {output}")


@cache
def _report_device(workers: int) -> None:
    """Print the device and the workers, once for all files of a step."""
    print_once(f"  embedding on {describe_device(best_device())}; {workers} workers decode images, {usable_cores()} cores")


def _is_whole(shard: Path) -> bool:
    """Whether a shard is complete; a truncated one is written again."""
    try:
        return bool(describe_vectors(shard).ids)
    except StorageError:
        raise
    except UserError:
        return False


def _embed_shard(loaded: Checkpoint, images: ImageSet, settings: EmbeddingSettings, path: Path, bar: "tqdm[NoReturn]") -> None:
    unreadable = np.zeros(len(images), bool)

    def vectors() -> Iterator[NDArray[np.float32]]:
        for block in embed_images(loaded, images, settings):
            unreadable[block.first : block.first + len(block.vectors)] = block.unreadable
            bar.update(len(block.vectors))
            yield block.vectors

    write_vectors(path, images.ids, vectors(), unreadable)


def _digest(checkpoint: Path, images: ImageSet, settings: EmbeddingSettings) -> str:
    """Return a digest of what the shards are made from, so that shards of anything else are never used."""
    made_from = [fingerprint(checkpoint), fingerprint(images), settings.what_makes_shards()]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def _wait_for_all(ranks: int) -> None:
    """Wait for all processes; torchrun ends all of them if one is lost."""
    if ranks > 1:
        with report_lost_process("embedding"):
            if not distributed.is_initialized():
                distributed.init_process_group("gloo", timeout=BARRIER_TIMEOUT)
            distributed.barrier()


def _report_unreadable(images: ImageSet, unreadable: NDArray[np.bool_], output: Path) -> None:
    listed = output.with_suffix(".unreadable.txt")
    bad = [images.paths[row] for row in np.flatnonzero(unreadable).tolist()]
    list_unreadable(listed, bad)
    if bad:
        print(
            f"  {len(bad)} of {len(images)} images cannot be read and match nothing, the first is {line_of(bad[0])}; "
            f"all, with reasons: {listed}"
        )
