"""Extractors turn any image into a vector that can be searched: from one checkpoint or an ONNX file, or two of them joined.

A run's are the caller's. The rule by which a pair of its vectors counts as a copy is calibrated here, too.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.files import digest_file
from image_copies.data.images import ImageSet
from image_copies.data.settings import read_recorded
from image_copies.data.shards import Place
from image_copies.data.sources.discovery import discover
from image_copies.data.squares import resize_square
from image_copies.models.inference import embedders, graph, onnx_embedder
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.description import Stored, read_stored
from image_copies.submissions.ensemble.normalization import normalize_by_variant
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.search.neighbours import Neighbours
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors

from . import threshold as thresholds
from .matches import FALSE_ALARMS, Rule

Project = Callable[[Float32s], Float32s]
# nothing but the same vector is a copy
UNFITTED = thresholds.Tail(start=0.0, scale=1e-9, share=1.0, pairs=0)
# references, and nearest others of each, that the tail of a joined extractor is fitted on
MOST_QUERIES, NEAREST = (2000, 10)
HALF = np.float32(math.sqrt(1 / 2))  # length of each of the two vectors in the joined one


@dataclass(frozen=True)
class Normalizer:
    """Query normalisation against training vectors, with the method, β and number of neighbours that the run chose."""

    training: Vectors
    variant: Variant
    settings: NormalizationSettings

    @cached_property
    def readable(self) -> Float32s:
        """Training vectors [m, d] of readable images only, selected once."""
        return self.training.readable()

    def __call__(self, queries: Float32s) -> Float32s:
        """Return the normalised queries [n, d].

        Raises:
            UserError: when there are too few training vectors.
        """
        with prefix_errors("the training vectors to normalise against"):
            return normalize_by_variant(queries, self.readable, self.variant, self.settings)


@dataclass(frozen=True)
class Extractor:
    """Networks and a projection that turn images into vectors, and the query normalisation."""

    networks: list[embedders.Embedder]  # their vectors are concatenated
    settings: EmbeddingSettings
    project: Project  # concatenated vectors [n, Σ d] to [n, dimensions] float32 of unit length
    dimensions: int
    # digest of what a reference's vector depends on; not of the runtime: equal to SAME_VECTORS (embedders.py)
    identity: str
    normalizer: Normalizer | None = None
    # the tail of unrelated pairs' distances; None where it is not known
    calibrate: Callable[[], thresholds.Tail | None] = lambda: None
    # opens the same extractor in another process, if it can be
    source: "Callable[[], Extractor] | None" = None
    files: tuple[Path, ...] = ()  # that it is opened from

    def extract(self, images: ImageSet) -> Iterator[embedders.EmbeddedBlock]:
        """Yield vectors [m, dimensions] of files block by block; rows of unreadable images are zero and flagged."""
        for block in embedders.embed_with_all(self.networks, images, self.settings):
            yield embedders.EmbeddedBlock(block.first, self.project(block.vectors), block.unreadable)

    def extract_batches(
        self, batches: Iterable[embedders.Batch], load: Callable[[embedders.Batch], embedders.AnyLoaded]
    ) -> Iterator[tuple[embedders.AnyLoaded, Float32s]]:
        """Yield each batch as it was loaded, with its vectors [n, dimensions]."""
        for loaded, vectors in embedders.embed_batches(self.networks, batches, load, self.settings):
            made = self.project(vectors) if len(vectors) else np.zeros((0, self.dimensions), np.float32)
            yield loaded, made

    def extract_all(
        self, images: ImageSet, advance: Callable[[int], object] = lambda count: None
    ) -> Vectors:
        """Return the vectors of all files at once; `advance` is called with the number of files done since the last call."""
        vectors = np.zeros((len(images), self.dimensions), np.float32)
        unreadable = np.zeros(len(images), bool)
        for block in self.extract(images):
            rows = slice(block.first, block.first + len(block.vectors))
            vectors[rows] = block.vectors
            unreadable[rows] = block.unreadable
            advance(len(block.vectors))
        return Vectors(images.ids, vectors, unreadable)

    def extract_picture(self, pixels: UInt8s) -> Float32s:
        """Return the vector [1, dimensions] of one RGB picture, uint8 [h, w, 3]."""
        squares = {
            size: resize_square(pixels, size).transpose(2, 0, 1)[None]
            for size in embedders.list_square_sizes(self.networks)
        }
        return self.project(np.concatenate([network.embed(squares) for network in self.networks], axis=1))

    def normalize(self, queries: Float32s) -> Float32s:
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
    network = (
        onnx_embedder.open_onnx(file, size=size)
        if file.suffix == ".onnx"
        else graph.open_network(file, settings)
    )
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
        files=(file.absolute(), *graph.list_graphs(file)),
    )


def split_size(path: Path) -> tuple[Path, int | None]:
    """Return the file that FILE.onnx@SIZE names, and the side in pixels of the squares that it gets; of others that is None."""
    name, mark, size = str(path).rpartition(".onnx@")
    return (Path(f"{name}.onnx"), int(size)) if mark and size.isdecimal() else (path, None)


def _find_tail(checkpoint: Path, stored: Stored | None) -> thresholds.Tail | None:
    """Return the tail of the synthetic queries next to a checkpoint, or the one that the checkpoint stores, if any."""
    synthetic = thresholds.read_synthetic(checkpoint)
    if synthetic is not None:
        return synthetic.tail
    return None if stored is None else thresholds.Tail(**stored.notes["tail"])


def _make_normalizer(stored: Stored) -> Normalizer:
    """Return query normalisation against the training vectors stored in the checkpoint."""
    background = scale_to_unit_length(stored.background)
    notes = stored.notes
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


def with_decoders(extractor: Extractor, place: Place) -> Extractor:
    """Return an extractor that decodes with as many processes as a place has for it."""
    if place.decoders is None:
        return extractor
    return replace(extractor, settings=extractor.settings.model_copy(update={"workers": place.decoders}))


def join_extractors(first: Extractor, other: Extractor) -> Extractor:
    """Return two extractors as one, whose vectors stand side by side: squared distances are the mean of both.

    Queries are not normalised: nobody has the other's vectors of the training images. The tail is fitted to the references
    themselves, each a query for those that the first extractor finds no copies; where they are too few there is none.
    """
    width = sum(network.dimensions for network in first.networks)

    def project(vectors: Float32s) -> Float32s:
        parts = [first.project(vectors[:, :width]), other.project(vectors[:, width:])]
        return np.concatenate(parts, axis=1) * HALF

    opens = first.source, other.source
    return Extractor(
        networks=[*first.networks, *other.networks],
        settings=first.settings,
        project=project,
        dimensions=first.dimensions + other.dimensions,
        identity=hashlib.sha256(f"{first.identity} {other.identity}".encode()).hexdigest(),
        calibrate=lambda: replace(UNFITTED, refit=partial(_fit_joined, first)),
        source=opens[0] and opens[1] and partial(_join_opened, opens[0], opens[1]),
        files=(*first.files, *other.files),
    )


def _join_opened(first: Callable[[], Extractor], other: Callable[[], Extractor]) -> Extractor:
    return join_extractors(first(), other())


def _fit_joined(first: Extractor, references: Float32s) -> thresholds.Tail:
    """Return the tail of the distances from references [m, d] to the nearest other that is no copy; UNFITTED for too few."""
    own = references[:, : first.dimensions] / HALF
    tail = first.calibrate()
    limit = 0.0 if tail is None else tail.against(lambda: own).threshold(thresholds.COPY_RATE, len(own))
    rows = thresholds.choose_sample(len(references), MOST_QUERIES)
    near = Neighbours(references).nearest(references[rows], NEAREST)
    differences = first.normalize(own[rows])[:, None] - own[near.rows]
    others = (np.square(differences).sum(axis=2) > limit) & (near.rows != rows[:, None])
    minima = np.where(others, near.values, np.inf).min(axis=1, initial=np.inf)
    minima = minima[np.isfinite(minima)]
    return (
        UNFITTED
        if len(minima) < thresholds.MIN_QUERIES
        else thresholds.fit_minima(minima, len(references), thresholds.TAIL_SHARE)
    )


def make_rule(
    extractor: Extractor,
    threshold: float | None = None,
    rate: float = FALSE_ALARMS,
    unrelated: Sequence[Path] = (),
) -> Rule:
    """Make the rule by which a pair counts as a copy; without a threshold it is calibrated.

    `rate` is of expected false alarms per query that copies nothing, between 0 and 1. `unrelated` are sources of pictures to
    calibrate on, not copies of each other; () for the network's own calibration.

    Raises:
        UserError: when calibration fails and no threshold is given.
    """
    if unrelated:
        tail: thresholds.Tail | None = _calibrate_on(extractor, discover(unrelated).images())
    else:
        try:
            tail = extractor.calibrate()
        except UserError:
            if threshold is None:
                raise
            tail = None  # the rates are not known; the threshold is the user's own
    return Rule(threshold, tail, rate)


def _calibrate_on(extractor: Extractor, images: ImageSet) -> thresholds.Tail:
    """Fit the tail on unedited pictures that are not copies of each other: each is compared with all others."""
    with tqdm(total=len(images), desc="embedding unrelated pictures", unit="image", leave=False) as bar:
        vectors = extractor.extract_all(images, bar.update).readable()
    return thresholds.fit_tail(extractor.normalize(vectors), vectors, np.arange(len(vectors)))
