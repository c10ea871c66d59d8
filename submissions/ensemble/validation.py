"""Validation vectors, which every choice is made on: synthetic queries, their references, and the other training images."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import prefix_errors
from image_copies.submissions.ensemble.projection import Projection, fit_projection_on_rows
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors
from image_copies.submissions.vectors.files import Vectors
from image_copies.submissions.vectors.rows import join_blocks


@dataclass(frozen=True)
class ValidationVectors:
    """PCA coordinates of the three sets; `weight` turns them into vectors of any eigenvalue power and any lower dimension."""

    name: str  # how messages refer to the training images
    queries: Vectors  # synthetic ones
    references: Vectors  # training images in which the queries are searched
    training: NDArray[np.float32]  # [n, d], readable training images that are not held out
    projection: Projection  # fitted on a sample of `training`

    def weight(self, dimensions: int, eigen_power: float) -> tuple[Vectors, Vectors, NDArray[np.float32]]:
        """Return queries, references and training as unit vectors [n, dimensions], weighted by eigenvalue ** eigen_power."""
        queries, references = (
            Vectors(part.ids, self.projection.weight(part.vectors[:, :dimensions], eigen_power), part.unreadable)
            for part in (self.queries, self.references)
        )
        return queries, references, self.projection.weight(self.training[:, :dimensions], eigen_power)


def project_validation(
    training: ConcatenatedVectors,
    references: Collection[str],
    held_out: Collection[str],
    synthetic: ConcatenatedVectors,
    dimensions: int,
    sample: int,
    seed: int,
) -> ValidationVectors:
    """Fit a PCA on at most `sample` training images that are not held out, and project all sets block by block.

    The synthetic queries are searched in the training images `references`, which are held out with all other validation images.
    Only [n, dimensions] is held in memory.

    Raises:
        UserError: when an id has no vector, there are too few training vectors, or a file is damaged.
    """
    outside = set(held_out)
    kept = np.array([image_id not in outside for image_id in training.ids], dtype=bool)
    others = np.flatnonzero(kept & ~training.unreadable)
    name = f"{training.name} without the {len(outside)} validation images"
    with prefix_errors(name):
        projection = fit_projection_on_rows(training, training.choose_rows(sample, seed, among=others), dimensions)
    searched = np.sort(training.rows_of(references))

    def coordinates(part: ConcatenatedVectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        blocks = (projection.coordinates(block, dimensions) for block in part.blocks_of(rows))
        return join_blocks(blocks, len(rows), dimensions)

    return ValidationVectors(
        name,
        Vectors(synthetic.ids, coordinates(synthetic, np.arange(len(synthetic))), synthetic.unreadable),
        Vectors([training.ids[row] for row in searched], coordinates(training, searched), training.unreadable[searched]),
        coordinates(training, others),
        projection,
    )
