"""What turns any image into a vector that can be searched: a whole run, one checkpoint, or an ONNX file."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from data.errors import naming
from data.images import ImageSet
from data.loader import resize_square
from models.inference.embed import EmbeddedBlock
from models.inference.extractors import Network, embed_with_all, sizes_of, torch_network
from models.inference.onnx_extractor import open_onnx
from models.settings import EmbeddingSettings
from pipeline.run.stage import Run, require
from pipeline.run.staleness import tell_stale
from pipeline.run.training_roles import training_roles
from submissions.ensemble.normalization import Neighbours, find_neighbours, neighbours_needed, normalize_by_variant
from submissions.ensemble.projection import load_projection
from submissions.ensemble.variant import Variant, read_choice
from submissions.index.calibration import Tail, fit_tail
from submissions.settings import NormalizationSettings
from submissions.vectors.files import Vectors, read_vectors

Project = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Normalizer:
    """Query normalisation as the run chose it; `training` are the vectors that queries move away from."""

    training: Vectors
    variant: Variant
    settings: NormalizationSettings

    @cached_property
    def readable(self) -> NDArray[np.float32]:
        """Training vectors of readable images only, picked out once."""
        return self.training.readable()

    def neighbours(self, queries: NDArray[np.float32]) -> Neighbours:
        """The training vectors that the run's method looks at, for queries [n, d]."""
        with naming("ensemble/training.h5 of the run"):
            return find_neighbours(queries, self.readable, neighbours_needed(self.settings, self.variant.method))

    def __call__(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Queries [n, d] as they are searched."""
        with naming("ensemble/training.h5 of the run"):
            return normalize_by_variant(queries, self.readable, self.variant, self.settings)


@dataclass(frozen=True)
class Describer:
    """identity: a digest of everything that makes a reference's vector; normalizer: None outside a run."""

    networks: list[Network]
    settings: EmbeddingSettings
    project: Project
    dimensions: int
    identity: str
    normalizer: Normalizer | None = None

    def images(self, images: ImageSet) -> Iterator[EmbeddedBlock]:
        """Vectors [m, dimensions] of files, block by block; rows of unreadable images are zero and marked."""
        for block in embed_with_all(self.networks, images, self.settings):
            yield EmbeddedBlock(block.first, self.project(block.vectors), block.unreadable)

    def vectors(self, images: ImageSet) -> Vectors:
        """All at once."""
        blocks = list(self.images(images))
        return Vectors(images.ids, np.concatenate([b.vectors for b in blocks]), np.concatenate([b.unreadable for b in blocks]))

    def picture(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The vector [1, dimensions] of one picture [h, w, 3] uint8."""
        squares = {size: resize_square(pixels, size) for size in sizes_of(self.networks)}
        tensors = {size: torch.from_numpy(square).permute(2, 0, 1)[None] for size, square in squares.items()}
        return self.project(np.concatenate([network.embed(tensors) for network in self.networks], axis=1))

    def normalized(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Queries [n, dimensions] as they are searched."""
        return queries if self.normalizer is None else self.normalizer(queries)


def run_describer(run: Run) -> Describer:
    """The whole run: all models, projection and normalisation. UserError names the step that is missing."""
    tell_stale(run, "04_normalize")
    folder, checkpoints = run.folder / "ensemble", run_checkpoints(run)
    projection_file = require(folder / "projection.h5", "03_ensemble", run)
    variant, _ = read_choice(folder)
    projection = load_projection(projection_file)
    own = run_embeddings(run)
    networks = [torch_network(path, settings) for path, settings in zip(checkpoints, own, strict=True)]
    training = read_vectors(require(folder / "training.h5", "03_ensemble", run))

    def project(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return projection.apply(vectors, variant.dimensions, variant.eigen_power)

    made_from = {
        "embedding": [settings.model_dump(mode="json", exclude={"workers", "batch_size", "shard"}) for settings in own],
        "dimensions": variant.dimensions,
        "eigen_power": variant.eigen_power,
    }
    return Describer(
        networks=networks,
        settings=run.recipe.embedding,
        project=project,
        dimensions=variant.dimensions,
        identity=_digest([*checkpoints, projection_file], made_from),
        normalizer=Normalizer(training, variant, run.recipe.normalization),
    )


def run_checkpoints(run: Run) -> list[Path]:
    """The last checkpoint of each model, in the order in which their vectors are joined."""
    return [
        require(run.folder / "models" / name / f"stage-{len(model.stages)}.safetensors", "01_train", run)
        for name, model in run.recipe.models.items()
    ]


def run_embeddings(run: Run) -> list[EmbeddingSettings]:
    """How each model of the run embeds, in the same order."""
    return [model.embedding or run.recipe.embedding for model in run.recipe.models.values()]


def checkpoint_describer(checkpoint: Path) -> Describer:
    """One checkpoint: its own vectors, neither projected nor normalised."""
    settings = EmbeddingSettings()
    network = torch_network(checkpoint, settings)
    return Describer([network], settings, lambda vectors: vectors, network.dimensions, _digest([checkpoint], {}))


def onnx_describer(path: Path) -> Describer:
    """An ONNX file of `pipeline/export.py`: a run's projection is inside, its query normalisation is not."""
    network = open_onnx(path)
    return Describer([network], EmbeddingSettings(), lambda vectors: vectors, network.dimensions, _digest([path], {}))


def calibrate(run: Run, describer: Describer) -> Tail:
    """The tail of unrelated pairs of the run: synthetic queries (step 00) against the held-out training images that they were
    not made from, normalised against the other training images as the choice of the variant was.
    """
    normalizer = describer.normalizer
    if normalizer is None:
        raise ValueError("only a run's describer can be calibrated on the run")
    records = require(run.folder / "queries" / "query_records.jsonl", "00_augment", run)
    synthetic = read_vectors(require(run.folder / "ensemble" / "synthetic.h5", "03_ensemble", run))
    roles, training = training_roles(run), normalizer.training
    with naming(run.folder / "ensemble" / "training.h5"):
        held_out = training.rows(roles.references.ids + roles.distractors.ids)
        outside = set(held_out.ids)
        others = training.rows([image_id for image_id in training.ids if image_id not in outside])
        queries = Normalizer(others, normalizer.variant, normalizer.settings)(synthetic.vectors)
    sources = {line["query_id"]: line["source_id"] for line in map(json.loads, records.read_text("utf-8").splitlines())}
    where = {image_id: row for row, image_id in enumerate(held_out.ids)}
    own = np.array([where[sources[query_id]] for query_id in synthetic.ids], np.int64)
    return fit_tail_of_readable(Vectors(synthetic.ids, queries, synthetic.unreadable), held_out, own)


def calibrate_on(describer: Describer, images: ImageSet) -> Tail:
    """The tail of unrelated pairs from unedited pictures that are no copies of each other: each against all others."""
    vectors = describer.vectors(images)
    rows = np.arange(len(vectors))
    queries = Vectors(vectors.ids, describer.normalized(vectors.vectors), vectors.unreadable)
    return fit_tail_of_readable(queries, vectors, rows)


def fit_tail_of_readable(queries: Vectors, references: Vectors, own: NDArray[np.int64]) -> Tail:
    """`fit_tail` without the rows of unreadable images."""
    readable = np.flatnonzero(~references.unreadable)
    place = np.full(len(references) + 1, -1)  # the last one stands for "related to none"
    place[readable] = np.arange(len(readable))
    return fit_tail(queries.readable(), references.readable(), place[own[~queries.unreadable]])


def _digest(files: list[Path], settings: dict[str, object]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
