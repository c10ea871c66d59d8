"""Step 02's work: images → a vectors file, by shards that are written as they finish.

A killed run loses at most one shard; several processes share them.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import distributed
from tqdm import tqdm

from data.errors import UserError
from data.images import ImageSet, find_images
from data.names import line_of
from data.process import choose_workers, print_once, process_count, process_rank, usable_cores
from data.unreadable import list_unreadable
from models.device import best_device, describe_device
from models.distributed import report_lost_process
from models.inference.embed import embed_images
from models.network.checkpoint import Checkpoint, load_descriptor
from models.settings import EmbeddingSettings
from pipeline.run.manifest import fingerprint
from submissions.vectors.files import describe_vectors, iterate_vectors, write_vectors

LONGEST_WAIT = timedelta(hours=24)  # of processes for each other


def embed_to_file(checkpoint: Path, images: ImageSet, settings: EmbeddingSettings, output: Path) -> None:
    """Embed all images into `output`; unreadable ones are reported and listed with their reasons in `<output>.unreadable.txt`.

    Of n processes (torchrun) each embeds every n-th shard and the first one joins them. Shards have fixed bounds, so the file is
    the same bit by bit for any number of processes.
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
        shutil.rmtree(folder)
        _report_unreadable(images, unreadable, output)
    _wait_for_all(ranks)  # so that the next step finds the whole file


def embed_folder(checkpoint: Path, folder: Path, output: Path, workers: int | None = None) -> None:
    """Embed any folder outside a run; ids are the paths below it without their endings.

    Args:
        checkpoint: The network.
        folder: Its images are embedded.
        output: The vectors file.
        workers: Processes that decode images; None for as many as there are cores.
    """
    settings = EmbeddingSettings(workers=workers)
    embed_to_file(checkpoint, find_images(folder, naming="path"), settings, output)
    print_once(f"vectors: {output}")


@cache
def _report_device(workers: int) -> None:
    """Print what embeds, once for all files of a step."""
    print_once(f"  embeds on {describe_device(best_device())}; {workers} workers decode images, {usable_cores()} cores")


def _is_whole(shard: Path) -> bool:
    """Whether a shard has been written; a torn one is written again."""
    try:
        return bool(describe_vectors(shard).ids)
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
    """What the shards were made from; shards of something else are never joined."""
    made_from = [fingerprint(checkpoint), fingerprint(images), settings.what_makes_shards()]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def _wait_for_all(ranks: int) -> None:
    """Wait until every process has come here; torchrun ends all of them where one is lost."""
    if ranks > 1:
        with report_lost_process("embedding"):
            if not distributed.is_initialized():
                distributed.init_process_group("gloo", timeout=LONGEST_WAIT)
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
