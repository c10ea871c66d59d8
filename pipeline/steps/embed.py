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

from image_copies.data import process, remote, shards
from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.sources.tables import import_pyarrow, is_parquet
from image_copies.models.device import best_device, describe_device
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.submissions.vectors.files import is_vectors, iterate_vectors, open_vectors, write_vectors

from ..run.step import fingerprint
from .vectors import report_unreadable

Network = tuple[Checkpoint, EmbeddingSettings]  # a descriptor, and how it embeds
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


# images of a shard at least, and shards, about, of a folder outside a run
MIN_FOLDER_SHARD, FOLDER_SHARDS = 1000, 100


@dataclass(frozen=True)
class EmbeddingShard:
    """Consecutive images that are embedded into a file."""

    images: ImageSet
    output: Path

    def __len__(self) -> int:
        return len(self.images)


def embed_to_file(
    checkpoint: Path, images: ImageSet, settings: EmbeddingSettings, output: Path, background: bool = False
) -> None:
    """Embed all images into `output`; unreadable ones are reported and listed with their reasons in `<output>.unreadable.txt`.

    Shards have fixed bounds, so that the file is bit-identical whoever makes them (`data/shards.py`). With `background` the
    vectors that the checkpoint brings along follow those of the images.

    Raises:
        UserError: when a checkpoint cannot be loaded or brings no background that is asked for, or the disk is full.
    """
    made_from = [fingerprint(checkpoint), fingerprint(images), settings.what_makes_shards()]
    # another digest where the shards are made from anything else
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
    folder = output.absolute().parent / f".{output.stem}-shards-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:06d}.h5" for number in range(-(-len(images) // settings.shard))]
    left = []
    for number, file in enumerate(files):
        if not is_vectors(file):
            part = slice(number * settings.shard, (number + 1) * settings.shard)
            paths = [path.absolute() for path in images.paths[part]]
            left.append(EmbeddingShard(ImageSet(images.ids[part], paths), file))
    network = checkpoint.absolute()  # workers have other current folders
    work = shards.ShardWork(
        name=f"embedding {output.stem}",
        unit="image",
        open=partial(_open_network, network, settings),
        work=_embed_shard,
        size=len,
        inputs=(network,),
        folder=folder,
        opened_as=f"{network} {fingerprint(network)} {settings.what_makes_shards()}",
        uses_gpu=True,
    )
    for _ in shards.run_shards(work, left, len(images), len(images) - sum(map(len, left))):
        pass  # the results are the files
    ids = images.ids
    if background:
        files.append(folder / "background.h5")
        ids = [*ids, *write_background(checkpoint, files[-1])]
    unreadable = np.concatenate([open_vectors(file).unreadable for file in files])
    blocks = (block for file in files for block in iterate_vectors(file))
    write_vectors(output, ids, blocks, unreadable)
    remote.remove_folder(folder)
    report_unreadable(images, unreadable[: len(images)], output)


def embed_folder(checkpoint: Path, folder: Path, output: Path, workers: int | None = None) -> None:
    """Embed any folder outside a run; ids are the paths relative to it, without extension.

    Raises:
        UserError: when the folder holds no image, the checkpoint cannot be loaded, or the disk is full.
    """
    if is_parquet(output):
        import_pyarrow()  # before hours are spent on what it is to hold
    images = find_images(folder, naming="path")
    defaults = EmbeddingSettings()
    # so that a few workers share a small folder
    shard = min(defaults.shard, max(MIN_FOLDER_SHARD, len(images) // FOLDER_SHARDS))
    embed_to_file(
        checkpoint, images, defaults.model_copy(update={"workers": workers, "shard": shard}), output
    )
    print(f"vectors: {output}", flush=True)


def _open_network(checkpoint: Path, settings: EmbeddingSettings) -> Network:
    _report_device(process.choose_workers(settings.workers))
    return load_descriptor(checkpoint), settings


@cache
def _report_device(workers: int) -> None:
    """Print the device and the workers, once for all files of a step."""
    device = describe_device(best_device())
    print(
        f"  embedding on {device}; {workers} workers decode images, {process.usable_cores()} cores",
        flush=True,
    )


def _embed_shard(network: Network, shard: EmbeddingShard, place: shards.Place) -> None:
    """Embed the images of a shard and write its file."""
    images, (checkpoint, settings) = shard.images, network
    if place.decoders is not None:
        settings = settings.model_copy(update={"workers": place.decoders})
    unreadable = np.zeros(len(images), bool)

    def vectors() -> Iterator[Float32s]:
        for block in embed_images(checkpoint, images, settings):
            unreadable[block.first : block.first + len(block.vectors)] = block.unreadable
            place.advance(len(block.vectors))
            yield block.vectors
        bad = [images.paths[row] for row in np.flatnonzero(unreadable).tolist()]
        place.report_absent([path for path in bad if not path.exists()])

    write_vectors(shard.output, images.ids, vectors(), unreadable)
