"""Extractors turn any image into a vector that can be searched: from one checkpoint or an ONNX file; a run's are the caller's."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import prefix_errors
from image_copies.data.files import digest_file
from image_copies.data.images import ImageSet
from image_copies.data.settings import read_recorded
from image_copies.data.squares import resize_square
from image_copies.matching.synthetic import read_synthetic
from image_copies.matching.threshold import Tail
from image_copies.models.inference.embedders import (
    AnyLoaded,
    Batch,
    EmbeddedBlock,
    Embedder,
    Loaded,
    Look,
    Source,
    embed_batches,
    embed_with_all,
    list_square_sizes,
    load_batch,
)
from image_copies.models.inference.graph import list_graphs, open_network
from image_copies.models.inference.onnx_embedder import open_onnx
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.description import Stored, read_stored
from image_copies.submissions.ensemble.normalization import (
    TrainingNear,
    count_neighbours_needed,
    find_neighbours,
    normalize_by_variant,
)
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors

Project = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Normalizer:
    """Query normalisation against training vectors, with the method, β and number of neighbours that the run chose."""

    training: Vectors
    variant: Variant
    settings: NormalizationSettings

    @cached_property
    def readable(self) -> NDArray[np.float32]:
        """Training vectors [m, d] of readable images only, selected once."""
        return self.training.readable()

    def neighbours(self, queries: NDArray[np.float32]) -> TrainingNear:
        """Find the training vectors nearest to queries [n, d], as many as the run's method uses.

        Raises:
            UserError: when there are too few training vectors.
        """
        with prefix_errors("the training vectors to normalise against"):
            return find_neighbours(
                queries, self.readable, count_neighbours_needed(self.settings, self.variant.method)
            )

    def __call__(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the normalised queries [n, d].

        Raises:
            UserError: when there are too few training vectors.
        """
        with prefix_errors("the training vectors to normalise against"):
            return normalize_by_variant(queries, self.readable, self.variant, self.settings)


@dataclass(frozen=True)
class Extractor:
    """Networks and a projection that turn images into vectors, and the query normalisation."""

    networks: list[Embedder]  # their vectors are concatenated
    settings: EmbeddingSettings
    project: Project  # concatenated vectors [n, Σ d] to [n, dimensions] float32 of unit length
    dimensions: int
    # digest of what a reference's vector depends on; not of the runtime: equal to SAME_VECTORS (embedders.py)
    identity: str
    normalizer: Normalizer | None = None
    # the tail of unrelated pairs' distances; None where it is not known
    calibrate: Callable[[], Tail | None] = lambda: None
    # opens the same extractor in another process, if it can be
    source: "Callable[[], Extractor] | None" = None
    files: tuple[Path, ...] = ()  # that it is opened from

    def extract(self, images: ImageSet) -> Iterator[EmbeddedBlock]:
        """Yield vectors [m, dimensions] of files block by block; rows of unreadable images are zero and flagged."""
        for block in embed_with_all(self.networks, images, self.settings):
            yield EmbeddedBlock(block.first, self.project(block.vectors), block.unreadable)

    def extract_batches(
        self, batches: Iterable[Batch], load: Callable[[Batch], AnyLoaded]
    ) -> Iterator[tuple[AnyLoaded, NDArray[np.float32]]]:
        """Yield each batch as it was loaded, with its vectors [n, dimensions]."""
        for loaded, vectors in embed_batches(self.networks, batches, load, self.settings):
            yield (
                loaded,
                (self.project(vectors) if len(vectors) else np.zeros((0, self.dimensions), np.float32)),
            )

    def load(self, batch: Sequence[Source], look: Look | None = None) -> Loaded:
        """Read and decode files, or their bytes, as `extract_batches` needs them; `look` is shown each."""
        return load_batch(batch, list_square_sizes(self.networks), look)

    def extract_all(self, images: ImageSet, advance: Callable[[int], object] = lambda count: None) -> Vectors:
        """Return the vectors of all files at once; `advance` is called with the number of files done since the last call."""
        vectors, unreadable = (
            np.zeros((len(images), self.dimensions), np.float32),
            np.zeros(len(images), bool),
        )
        for block in self.extract(images):
            rows = slice(block.first, block.first + len(block.vectors))
            vectors[rows], unreadable[rows] = block.vectors, block.unreadable
            advance(len(block.vectors))
        return Vectors(images.ids, vectors, unreadable)

    def extract_picture(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the vector [1, dimensions] of one RGB picture, uint8 [h, w, 3]."""
        squares = {
            size: resize_square(pixels, size).transpose(2, 0, 1)[None]
            for size in list_square_sizes(self.networks)
        }
        return self.project(np.concatenate([network.embed(squares) for network in self.networks], axis=1))

    def normalize(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the normalised queries [n, dimensions]; the queries themselves without a normalizer.

        Raises:
            UserError: when there are too few training vectors.
        """
        return queries if self.normalizer is None else self.normalizer(queries)


def checkpoint_extractor(checkpoint: Path) -> Extractor:
    """Open a checkpoint of a single network, or of a run that `export.py` wrote as one file, or any ONNX file (`split_size`).

    Raises:
        UserError: when the file is missing or damaged, or takes or gives something else than pictures and vectors.
    """
    file, size = split_size(checkpoint)
    settings = EmbeddingSettings()
    network = open_onnx(file, size=size) if file.suffix == ".onnx" else open_network(file, settings)
    stored = read_stored(file)
    return Extractor(
        networks=[network],
        settings=settings,
        project=lambda vectors: vectors,
        dimensions=network.dimensions,
        identity=digest_files([file], {} if size is None else {"size": size}),
        normalizer=None if stored is None or not len(stored.background) else _make_normalizer(stored),
        calibrate=partial(_find_tail, file, stored),
        source=partial(checkpoint_extractor, checkpoint.absolute()),
        files=(file.absolute(), *list_graphs(file)),
    )


def split_size(path: Path) -> tuple[Path, int | None]:
    """Return the file that FILE.onnx@SIZE names, and the side in pixels of the squares that it gets; of others that is None."""
    name, mark, size = str(path).rpartition(".onnx@")
    return (Path(f"{name}.onnx"), int(size)) if mark and size.isdecimal() else (path, None)


def _find_tail(checkpoint: Path, stored: Stored | None) -> Tail | None:
    """Return the tail of the synthetic queries next to a checkpoint, or the one that the checkpoint stores, if any."""
    synthetic = read_synthetic(checkpoint)
    if synthetic is not None:
        return synthetic.tail
    return None if stored is None else Tail(**stored.notes["tail"])


def _make_normalizer(stored: Stored) -> Normalizer:
    """Return query normalisation against the training vectors stored in the checkpoint."""
    background, notes = scale_to_unit_length(stored.background), stored.notes
    training = Vectors(
        [str(row) for row in range(len(background))], background, np.zeros(len(background), bool)
    )
    about = notes["variant"] | {"weights": tuple(notes["variant"]["weights"])}
    return Normalizer(
        training, Variant(**about), read_recorded(NormalizationSettings, notes["normalization"])
    )


def digest_files(files: list[Path], settings: dict[str, object]) -> str:
    """Return the SHA-256 of settings and files: it identifies the extractor."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for path in files:
        digest.update(bytes.fromhex(digest_file(path)))
    return digest.hexdigest()
