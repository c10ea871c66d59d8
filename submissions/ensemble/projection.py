"""PCA of the concatenated embeddings, fitted on training vectors and kept, so that new images can be projected (ISC2021, 2.6)."""

from dataclasses import dataclass
from pathlib import Path

import faiss
import h5py
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.files import whole_file
from submissions.vectors.hdf5 import FAULTS, dataset_problem, new_hdf5

PARTS = ("mean", "axes", "eigenvalues")
BLOCK = 65_536
EIGENVALUE_FLOOR = 1e-10  # directions that the training vectors do not span get no weight


@dataclass(frozen=True)
class Projection:
    """A fitted PCA with m = min(D, number of training vectors) axes.

    Attributes:
        mean: float32 [D].
        axes: float32 [m, D], as rows, largest variance first.
        eigenvalues: float32 [m], of the training vectors' covariance.
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    eigenvalues: NDArray[np.float32]

    def apply(self, vectors: NDArray[np.float32], dimensions: int, eigen_power: float) -> NDArray[np.float32]:
        """Project [n, D] to unit vectors [n, dimensions]: coordinates along the first axes, times eigenvalue ** eigen_power.

        Zero rows (unreadable images) stay zero.

        Raises:
            UserError: the vectors have other dimensions than D, or the PCA has fewer axes than `dimensions`.
        """
        if vectors.shape[1] != len(self.mean):
            raise UserError(f"the vectors have {vectors.shape[1]} dimensions, the projection was fitted on {len(self.mean)}.")
        return self.weight(self.coordinates(vectors, dimensions), eigen_power)

    def coordinates(self, vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
        """The coordinates [n, dimensions] of [n, D] along the first axes; zero rows stay zero.

        Raises:
            UserError: as `apply`.
        """
        if vectors.shape[1] != len(self.mean):
            raise UserError(f"the vectors have {vectors.shape[1]} dimensions, the projection was fitted on {len(self.mean)}.")
        self._require(dimensions)
        along = ((vectors - self.mean) @ self.axes[:dimensions].T).astype(np.float32, copy=False)
        along[~vectors.any(axis=1)] = 0
        return along

    def weight(self, coordinates: NDArray[np.float32], eigen_power: float) -> NDArray[np.float32]:
        """Multiply coordinates [n, m] by eigenvalue ** eigen_power and make them unit length, in blocks."""
        weights, made = self._weights(coordinates.shape[1], eigen_power), np.empty_like(coordinates, order="C")
        for start in range(0, len(coordinates), BLOCK):
            part = slice(start, start + BLOCK)
            made[part] = unit_length(coordinates[part] * weights)
        return made

    def weighted_axes(self, dimensions: int, eigen_power: float) -> NDArray[np.float32]:
        """The matrix [D, dimensions] of the first axes, each times its eigenvalue ** eigen_power.

        Raises:
            UserError: the PCA has fewer axes than `dimensions`.
        """
        self._require(dimensions)
        return self.axes[:dimensions].T * self._weights(dimensions, eigen_power)

    def of_unweighted(self, weights: NDArray[np.float32]) -> "Projection":
        """The same projection for vectors that have not been multiplied by `weights` [D]; where a weight is 0, by any number."""
        mean = np.where(weights > 0, self.mean / np.where(weights > 0, weights, 1), 0).astype(np.float32)
        return Projection(mean, self.axes * weights, self.eigenvalues)

    def _require(self, dimensions: int) -> None:
        if dimensions > len(self.axes):
            raise UserError(
                f"the projection has {len(self.axes)} dimensions, {dimensions} were asked for. Do step 03 again after lowering "
                "ensemble.dimensions in the recipe or adding training images."
            )

    def _weights(self, dimensions: int, eigen_power: float) -> NDArray[np.float32]:
        kept = self.eigenvalues[:dimensions].astype(np.float64)
        floor = EIGENVALUE_FLOOR * max(float(self.eigenvalues[0]), 1e-30)
        return np.where(kept > floor, np.maximum(kept, floor) ** eigen_power, 0.0).astype(np.float32)


def fit_projection(training: NDArray[np.float32], needed: int = 1) -> Projection:
    """Fit the PCA on training vectors.

    Args:
        training: float32 [n, D].
        needed: how many dimensions it must give.

    Raises:
        UserError: fewer than two vectors, or fewer than `needed` dimensions.
    """
    count, dimensions = training.shape
    if count < 2:
        raise UserError(f"{count} training vectors cannot fit a PCA. Embed more training images.")
    most = min(dimensions, count)
    if needed > most:
        raise UserError(
            f"{count} training vectors of {dimensions} dimensions give a PCA of {most} dimensions, {needed} are asked for. Lower "
            f"ensemble.dimensions in the recipe to at most {most}, or "
            + ("join more or longer models." if dimensions < needed else "add training images.")
        )
    pca = faiss.PCAMatrix(dimensions, most)
    pca.train(np.ascontiguousarray(training, dtype=np.float32))
    axes = faiss.vector_to_array(pca.PCAMat).reshape(-1, dimensions)
    mean, eigenvalues = faiss.vector_to_array(pca.mean), faiss.vector_to_array(pca.eigenvalues)
    return Projection(mean, axes, np.maximum(eigenvalues[: len(axes)], 0) / count)


def save_projection(path: Path, projection: Projection) -> None:
    """Write the PCA as HDF5 with `mean`, `axes` and `eigenvalues`, whole or not at all."""
    with whole_file(path) as temporary, new_hdf5(temporary) as (file, _):
        file["mean"], file["axes"], file["eigenvalues"] = projection.mean, projection.axes, projection.eigenvalues


def load_projection(path: Path) -> Projection:
    """Read what `save_projection` wrote.

    Raises:
        UserError: the file is missing or is not such a file.
    """
    try:
        with h5py.File(path, "r") as file:
            problems = [f"{name} {problem}" for name in PARTS if (problem := dataset_problem(file, name)) is not None]
            if problems:
                raise OSError(", ".join(problems))
            mean, axes, eigenvalues = (np.asarray(file[name], np.float32) for name in PARTS)
            if axes.ndim != 2 or mean.shape != axes.shape[1:] or eigenvalues.shape != axes.shape[:1]:
                raise OSError(f"shapes {mean.shape}, {axes.shape} and {eigenvalues.shape} do not belong together")
            return Projection(mean, axes, eigenvalues)
    except FAULTS as error:
        raise UserError(f"{path} is not a projection that step 03 wrote ({error}). Run step 03 again.") from error


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Make each row [n, d] unit length; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
