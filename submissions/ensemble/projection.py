"""PCA of the concatenated embeddings, fitted on training vectors only and saved to project new images (ISC2021, section 2.6)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from image_copies.data.arrays import Float32s, Float64s, Int64s
from image_copies.data.errors import UserError
from image_copies.data.files import open_regular, whole_file

from ..vectors.concatenated import ConcatenatedVectors
from ..vectors.hdf5 import HDF5_ERRORS, create_hdf5, describe_dataset_problem, open_hdf5

ROWS_AT_ONCE = 8192  # of the chosen ones
SUMMED_ROWS = 4096  # converted to float64 at once


@dataclass(frozen=True)
class Moments:
    """The sums of some vectors of D dimensions."""

    count: int
    total: Float64s  # [D], their sum
    products: Float64s  # [D, D], the sum of x xᵀ

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.products + other.products)

    @property
    def mean(self) -> Float64s:
        """The mean [D]."""
        return self.total / self.count

    @property
    def covariance(self) -> Float64s:
        """The covariance matrix [D, D], with 1/n."""
        return self.products / self.count - np.outer(self.mean, self.mean)


def sum_vectors(vectors: Float32s) -> Moments:
    """Sum vectors [n, D] in blocks of fixed size and with one thread, of whose number the last bits may depend."""
    dimensions = vectors.shape[1]
    moments = Moments(0, np.zeros(dimensions), np.zeros((dimensions, dimensions)))
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(vectors), SUMMED_ROWS):
            block = vectors[start : start + SUMMED_ROWS].astype(np.float64)
            moments += Moments(len(block), block.sum(axis=0), block.T @ block)
    return moments


def sum_chosen(vectors: ConcatenatedVectors, rows: Int64s) -> Moments:
    """Sum chosen rows of vectors files, int64 [k] ascending, in parts of fixed size, on which the last bits depend.

    Raises:
        UserError: when a file is damaged or holds invalid vectors.
    """
    found = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        first = int(rows[start])
        chosen = rows[start : start + ROWS_AT_ONCE] - first
        parts = []
        row = 0
        for block in vectors.blocks(first=first, last=first + int(chosen[-1]) + 1):
            low, high = np.searchsorted(chosen, (row, row + len(block)))
            parts.append(block[chosen[low:high] - row])
            row += len(block)
        found.append(sum_vectors(np.concatenate(parts)))
    return sum(found[1:], found[0])


DATASET_NAMES = ("mean", "axes", "eigenvalues")
ROWS_PER_BLOCK = 65_536
# share of the largest eigenvalue below which a direction gets weight 0: the vectors do not span it
EIGENVALUE_FLOOR = 1e-10


@dataclass(frozen=True)
class Projection:
    """A fitted PCA with m = min(D, number of training vectors) axes."""

    mean: Float32s  # [D]
    axes: Float32s  # [m, D], principal axes as rows, largest variance first
    eigenvalues: Float32s  # [m], of the training vectors' covariance matrix

    def apply(self, vectors: Float32s, dimensions: int, eigen_power: float) -> Float32s:
        """Project vectors [n, D] to unit vectors [n, dimensions]: coordinates along the first axes × eigenvalue ** eigen_power.

        Zero rows (unreadable images) stay zero.

        Raises:
            UserError: when the vectors do not have D dimensions, or the PCA has fewer axes than `dimensions`.
        """
        return self.weight(self.coordinates(vectors, dimensions), eigen_power)

    def coordinates(self, vectors: Float32s, dimensions: int) -> Float32s:
        """Return the coordinates [n, dimensions] of vectors [n, D] along the first axes; zero rows stay zero.

        Raises:
            UserError: when the vectors do not have D dimensions, or the PCA has fewer axes than `dimensions`.
        """
        if vectors.shape[1] != len(self.mean):
            raise UserError(
                f"the vectors have {vectors.shape[1]} dimensions, the projection was fitted on {len(self.mean)}."
            )
        self._require(dimensions)
        along = ((vectors - self.mean) @ self.axes[:dimensions].T).astype(np.float32, copy=False)
        along[~vectors.any(axis=1)] = 0
        return along

    def weight(self, coordinates: Float32s, eigen_power: float) -> Float32s:
        """Multiply coordinates [n, k] by eigenvalue ** eigen_power and scale each row to unit length."""
        weights, made = (
            self._weights(coordinates.shape[1], eigen_power),
            np.empty_like(coordinates, order="C"),
        )
        for start in range(0, len(coordinates), ROWS_PER_BLOCK):
            part = slice(start, start + ROWS_PER_BLOCK)
            made[part] = scale_to_unit_length(coordinates[part] * weights)
        return made

    def weighted_axes(self, dimensions: int, eigen_power: float) -> Float32s:
        """Return the matrix [D, dimensions] of the first axes as columns, each times its eigenvalue ** eigen_power.

        Raises:
            UserError: when the PCA has fewer axes than `dimensions`.
        """
        self._require(dimensions)
        return self.axes[:dimensions].T * self._weights(dimensions, eigen_power)

    def of_unweighted(self, weights: Float32s) -> "Projection":
        """Return the equivalent projection for vectors not yet multiplied by `weights` [D]; weight 0 ignores a dimension."""
        mean = np.where(weights > 0, self.mean / np.where(weights > 0, weights, 1), 0).astype(np.float32)
        return Projection(mean, self.axes * weights, self.eigenvalues)

    def _require(self, dimensions: int) -> None:
        if dimensions > len(self.axes):
            raise UserError(
                f"the projection has {len(self.axes)} dimensions, but {dimensions} are needed. Lower ensemble.dimensions in the "
                "recipe or add training images, then run step 03 again."
            )

    def _weights(self, dimensions: int, eigen_power: float) -> Float32s:
        kept = self.eigenvalues[:dimensions].astype(np.float64)
        floor = EIGENVALUE_FLOOR * max(float(self.eigenvalues[0]), 1e-30)
        return np.where(kept > floor, np.maximum(kept, floor) ** eigen_power, 0.0).astype(np.float32)


def fit_projection(training: Float32s, needed: int = 1) -> Projection:
    """Fit a PCA of at least `needed` axes on training vectors, float32 [n, D].

    Raises:
        UserError: when there are fewer than two vectors, or min(n, D) is less than `needed`.
    """
    _require_enough(len(training), training.shape[1], needed)
    return _solve(sum_vectors(training))


def fit_projection_on_rows(training: ConcatenatedVectors, rows: Int64s, needed: int = 1) -> Projection:
    """Fit a PCA on chosen rows of vectors files, int64 [n] ascending, summed shard by shard; see `fit_projection`."""
    _require_enough(len(rows), training.dimensions, needed)
    return _solve(sum_chosen(training, rows))


def _require_enough(count: int, dimensions: int, needed: int) -> None:
    if count < 2:
        raise UserError(
            f"{count} training vectors are too few to fit a PCA; expected at least 2. Embed more training images."
        )
    most = min(dimensions, count)
    if needed > most:
        raise UserError(
            f"a PCA of {count} training vectors with {dimensions} dimensions has at most {most} dimensions, but {needed} are "
            f"needed. Lower ensemble.dimensions in the recipe to at most {most}, or "
            + (
                "add models or models of higher dimension."
                if dimensions < needed
                else "add training images."
            )
        )


def _solve(moments: Moments) -> Projection:
    """Return the eigenvectors of the covariance matrix, each with a positive largest component."""
    with threadpool_limits(1, user_api="blas"):  # the last bits may depend on the number of threads
        eigenvalues, vectors = np.linalg.eigh(moments.covariance)
    most = min(len(eigenvalues), moments.count)
    axes, eigenvalues = vectors[:, ::-1][:, :most].T, eigenvalues[::-1][:most]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1, keepdims=True), 1)
    axes = np.where(largest < 0, -axes, axes)
    return Projection(
        moments.mean.astype(np.float32),
        np.ascontiguousarray(axes, np.float32),
        np.maximum(eigenvalues, 0).astype(np.float32),
    )


def save_projection(path: Path, projection: Projection) -> None:
    """Write the PCA atomically as HDF5 with the data sets `mean`, `axes` and `eigenvalues`.

    Raises:
        UserError: when the disk is full.
    """
    with whole_file(path) as temporary, create_hdf5(temporary) as (file, _):
        file["mean"], file["axes"], file["eigenvalues"] = (
            projection.mean,
            projection.axes,
            projection.eigenvalues,
        )


def load_projection(path: Path) -> Projection:
    """Read a PCA that `save_projection` wrote.

    Raises:
        UserError: when the file is missing, damaged or not a projection.
    """
    try:
        with open_regular(path), open_hdf5(path) as file:
            problems = [
                f"{name} {problem}"
                for name in DATASET_NAMES
                if (problem := describe_dataset_problem(file, name)) is not None
            ]
            if problems:
                raise OSError(", ".join(problems))
            mean, axes, eigenvalues = (np.asarray(file[name], np.float32) for name in DATASET_NAMES)
            if axes.ndim != 2 or mean.shape != axes.shape[1:] or eigenvalues.shape != axes.shape[:1]:
                raise OSError(
                    f"the shapes {mean.shape}, {axes.shape} and {eigenvalues.shape} are inconsistent"
                )
            return Projection(mean, axes, eigenvalues)
    except HDF5_ERRORS as error:
        raise UserError(
            f"{path} is not a projection that step 03 wrote ({error}). Run step 03 again."
        ) from error


def scale_to_unit_length(vectors: Float32s) -> Float32s:
    """Scale each row of [n, d] to unit length; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def require_training_only(training: Iterable[str], others: dict[str, Iterable[str]]) -> None:
    """Check that none of the ids to fit on is in one of the others' sets, which are named, such as "query".

    Raises:
        UserError: when a training id is in another set.
    """
    allowed = set(training)
    for name, ids in others.items():
        shared = sorted(allowed.intersection(ids))
        if shared:
            raise UserError(
                f"{len(shared)} training ids are also {name} ids, the first is {shared[0]!r}. The rules allow fitting on "
                f"training images only: remove these images from training_images/, or rename them if they are different images."
            )
