"""Networks as plain functions of pixels, independent of what runs them; without torch."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from image_copies.data import decode, process, remote
from image_copies.data.arrays import Bools, Float32s, UInt8s
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.squares import decode_squares, read_or_nothing
from image_copies.data.threads import map_in_threads, overlap

from .settings import EmbeddingSettings

# largest difference in a coordinate between vectors of one descriptor, whatever runs it
SAME_VECTORS = 1e-5
# images of a batch that a core works on alone; more take more memory and are no faster
MOST_SIDE_BY_SIDE = 16
Squares = Mapping[int, UInt8s]  # size → uint8 [n, 3, size, size], the same images at several sizes
Waiting = Callable[[], Float32s]
Source = tuple[Path, bytes | None]  # an image file, and its bytes where they have been read
# is shown a file, its bytes, and what has been decoded of them
Look = Callable[[Path, bytes, decode.Decoded], None]


@dataclass(frozen=True)
class EmbeddedBlock:
    """Vectors of consecutive images."""

    first: int
    vectors: Float32s  # float32 [m, d], unit length; zero where the image cannot be read
    unreadable: Bools  # bool [m], whether the image cannot be read


@dataclass(frozen=True)
class Embedder:
    """A network that is ready to embed, whatever file it was loaded from."""

    sizes: tuple[int, ...]  # input sizes in pixels
    dimensions: int
    # maps images at each of `sizes` to unit vectors [n, d], of any batch alike
    embed: Callable[[Squares], Float32s]
    # held while threads embed a batch each; None on a GPU
    side_by_side: Callable[[], AbstractContextManager[object]] | None
    # the same on a GPU, which need not be waited for at once
    launch: Callable[[Squares], Waiting] | None = None
    # opens what embeds views with less work, nearly as well
    open_views: "Callable[[], Embedder] | None" = None
    made_by: str = ""  # what that is: their vectors differ by what makes them

    def for_views(self) -> "Embedder":
        """Return what embeds a query's views, at sizes of its own."""
        return self if self.open_views is None else self.open_views()

    def begin(self, squares: Squares) -> Waiting:
        """Begin to embed, where that is possible, and return what waits for the vectors [n, d]."""
        return partial(self.embed, squares) if self.launch is None else self.launch(squares)


def open_once(opened: Callable[[], Embedder]) -> Callable[[], Embedder]:
    """Return a function of threads that opens a network when it is first asked for it."""
    opening = threading.Lock()
    kept = cache(opened)

    def open_it() -> Embedder:
        with opening:
            return kept()

    return open_it


def embed_with_all(
    networks: Sequence[Embedder], images: ImageSet, settings: EmbeddingSettings
) -> Iterator[EmbeddedBlock]:
    """Embed images with several networks, each file read once; the vectors are concatenated, [m, Σ dimensions].

    Raises:
        UserError: A vector is not finite.
    """
    count, first = choose_batch(networks, settings), 0
    batches: Iterable[list[Source]] = (
        [(path, None) for path in images.paths[start : start + count]]
        for start in range(0, len(images), count)
    )
    load = partial(load_batch, sizes=list_square_sizes(networks))
    for loaded, vectors in embed_batches(networks, batches, load, settings):
        yield EmbeddedBlock(first, vectors, loaded.unreadable)
        first += len(vectors)


def choose_batch(networks: Sequence[Embedder], settings: EmbeddingSettings) -> int:
    """Return how many images to embed together."""
    return settings.batch_size if any_on_gpu(networks) else min(settings.batch_size, MOST_SIDE_BY_SIDE)


@dataclass(frozen=True)
class Loaded:
    """A batch of decoded images."""

    paths: Sequence[Path]
    squares: Squares
    unreadable: Bools


Batch = TypeVar("Batch")
AnyLoaded = TypeVar("AnyLoaded", bound=Loaded)


def embed_batches(
    networks: Sequence[Embedder],
    batches: Iterable[Batch],
    load: Callable[[Batch], AnyLoaded],
    settings: EmbeddingSettings,
) -> Iterator[tuple[AnyLoaded, Float32s]]:
    """Yield each batch as it was loaded, with its concatenated vectors [n, Σ dimensions]; zero for images that cannot be read.

    Batches are taken one by one by the caller's thread, as there is room to work on them. Threads load them ahead of a GPU,
    which has its next batch before the vectors of one are read; on a CPU, each also embeds the batch that it has loaded.

    Raises:
        UserError: A vector is not finite.
    """
    threads = max(1, process.choose_workers(settings.workers))

    def launch(loaded: AnyLoaded) -> tuple[AnyLoaded, list[Waiting]]:
        return loaded, [network.begin(loaded.squares) for network in networks if loaded.paths]

    def read(launched: tuple[AnyLoaded, list[Waiting]]) -> tuple[AnyLoaded, Float32s]:
        loaded, waiting = launched
        if not waiting:
            return loaded, np.zeros((0, sum(network.dimensions for network in networks)), np.float32)
        vectors = np.concatenate([wait() for wait in waiting], axis=1)
        vectors[loaded.unreadable] = 0
        check_finite(vectors, loaded.paths)
        return loaded, vectors

    if any_on_gpu(networks):
        yield from overlap(launch, read, map_in_threads(load, batches, threads))
        return
    with ExitStack() as held:
        for network in networks:
            if network.side_by_side is not None:
                held.enter_context(network.side_by_side())
        yield from map_in_threads(lambda batch: read(launch(load(batch))), batches, threads)


def any_on_gpu(networks: Sequence[Embedder]) -> bool:
    """Whether any of the networks is on a GPU, for which batches are loaded ahead."""
    return any(network.side_by_side is None for network in networks)


def load_batch(batch: Sequence[Source], sizes: Sequence[int], look: Look | None = None) -> Loaded:
    """Decode images, after reading those that have not been read, at each size; `look` is shown each."""
    read = iter(remote.map_files(read_or_nothing, [path for path, content in batch if content is None]))
    images = []
    for path, known in batch:
        content = next(read) if known is None else known
        decoded = decode.Decoded()
        images.append(decode_squares(content, sizes, decoded))
        if look is not None:
            look(path, content, decoded)
    squares = {size: np.stack([image[size][0] for image in images]) for size in sizes} if images else {}
    unreadable = np.array([not all(readable for _, readable in image.values()) for image in images], bool)
    return Loaded([path for path, _ in batch], squares, unreadable)


def list_square_sizes(networks: Sequence[Embedder]) -> list[int]:
    """Return all input sizes of the networks in pixels, ascending."""
    return sorted({size for network in networks for size in network.sizes})


def check_finite(vectors: Float32s, paths: Sequence[Path]) -> None:
    """Check that all vectors [m, d], of these images, are finite.

    Raises:
        UserError: A vector contains NaN or infinity; the message names the first such image.
    """
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise UserError(
            f"the network's vector of {paths[broken[0]]} is not finite: its weights are damaged, its training "
            "diverged, or precision 16 is too narrow for it (embedding.precision: bf16 or 32)."
        )
