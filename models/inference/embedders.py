"""Networks as plain functions of pixels, independent of what runs them; without torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.process import choose_workers
from image_copies.data.remote import map_files
from image_copies.data.squares import decode_squares, read_or_nothing
from image_copies.data.threads import map_in_threads
from image_copies.models.inference.settings import EmbeddingSettings

MOST_SIDE_BY_SIDE = 32  # images of a batch that a core works on alone; more take more memory and are no faster
Squares = Mapping[int, NDArray[np.uint8]]  # size → uint8 [n, 3, size, size], the same images at several sizes


@dataclass(frozen=True)
class EmbeddedBlock:
    """Vectors of consecutive images."""

    first: int
    vectors: NDArray[np.float32]  # float32 [m, d], unit length; zero where the image cannot be read
    unreadable: NDArray[np.bool_]  # bool [m], whether the image cannot be read


@dataclass(frozen=True)
class Embedder:
    """A network that is ready to embed, whatever file it was loaded from."""

    sizes: tuple[int, ...]  # input sizes in pixels
    dimensions: int
    embed: Callable[[Squares], NDArray[np.float32]]  # maps images at each of `sizes` to unit vectors [n, d], of any batch alike
    side_by_side: Callable[[], AbstractContextManager[object]] | None  # held while threads embed a batch each; None on a GPU


def embed_with_all(networks: Sequence[Embedder], images: ImageSet, settings: EmbeddingSettings) -> Iterator[EmbeddedBlock]:
    """Embed images with several networks; the vectors are concatenated, [m, Σ dimensions].

    Each file is read once. Threads decode batches ahead of a GPU; on a CPU, each also embeds the batch that it has decoded.

    Raises:
        UserError: A vector is not finite.
    """
    sizes, threads = list_square_sizes(networks), max(1, choose_workers(settings.workers))
    alone = any(network.side_by_side is None for network in networks)
    count = settings.batch_size if alone else min(settings.batch_size, MOST_SIDE_BY_SIDE)
    batches = [images.paths[first : first + count] for first in range(0, len(images), count)]

    def load(paths: Sequence[Path]) -> tuple[Squares, NDArray[np.bool_]]:
        return _load_batch(paths, sizes)

    def embed(loaded: tuple[Squares, NDArray[np.bool_]]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        squares, unreadable = loaded
        vectors = np.concatenate([network.embed(squares) for network in networks], axis=1)
        vectors[unreadable] = 0
        return vectors, unreadable

    with ExitStack() as held:
        for network in networks:
            if network.side_by_side is not None:
                held.enter_context(network.side_by_side())
        embedded: Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]
        if alone:
            embedded = map(embed, map_in_threads(load, batches, threads))
        else:
            embedded = map_in_threads(lambda paths: embed(load(paths)), batches, min(threads, max(1, len(batches))))
        first = 0
        for vectors, unreadable in embedded:
            check_finite(vectors, images, first)
            yield EmbeddedBlock(first, vectors, unreadable)
            first += len(vectors)


def _load_batch(paths: Sequence[Path], sizes: Sequence[int]) -> tuple[Squares, NDArray[np.bool_]]:
    """Read and decode images; return them at each size, and which cannot be read, bool [n]."""
    decoded = [decode_squares(content, sizes) for content in map_files(read_or_nothing, paths)]
    squares = {size: np.stack([image[size][0] for image in decoded]) for size in sizes}
    return squares, np.array([not all(readable for _, readable in image.values()) for image in decoded])


def list_square_sizes(networks: Sequence[Embedder]) -> list[int]:
    """Return all input sizes of the networks in pixels, ascending."""
    return sorted({size for network in networks for size in network.sizes})


def check_finite(vectors: NDArray[np.float32], images: ImageSet, first: int) -> None:
    """Check that all vectors [m, d], of the images from index `first` on, are finite.

    Raises:
        UserError: A vector contains NaN or infinity; the message names the first such image.
    """
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise UserError(
            f"the network's vector of {images.paths[first + broken[0]]} is not finite: its weights are damaged, its training "
            "diverged, or precision 16 is too narrow for it (embedding.precision: bf16 or 32)."
        )
