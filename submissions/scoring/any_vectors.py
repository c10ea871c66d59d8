"""Scoring and normalising vectors that anybody made, of any dimension: in files, or by id in memory."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from image_copies.data.arrays import Float32s
from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.files import open_regular
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.sources.tables import is_parquet

from ..ensemble import normalization, projection, variant
from ..settings import Method, NormalizationSettings
from ..vectors.files import MAX_NORM, Vectors, VectorSet, open_vectors, read_ids, read_vectors
from ..vectors.hdf5 import HDF5_ERRORS, describe_dataset_problem, open_hdf5
from .metrics import RankedPairs, Scores, evaluate

Source = str | os.PathLike[str] | Mapping[str, ArrayLike]  # a file, or the vector [d] of each id
# a CSV, or the reference that each query copies, None for none
Truth = str | os.PathLike[str] | Mapping[str, str | None]
Part = Literal["query", "reference"]
DEFAULTS = NormalizationSettings()


def score(queries: Source, references: Source, ground_truth: Truth) -> Scores:
    """Score vectors by the challenge's metrics: µAP, recall at 90 % precision, recall at rank 1 and 10.

    Args:
        queries: A vectors file (step 02's form or the challenge's), a .npy file [n, d], whose ids are its row numbers from 0,
            or a vector for each id.
        references: The same of the references; any number of dimensions, that of the queries.
        ground_truth: A CSV `query_id,reference_id`, or the reference id of each query, None for one that copies nothing.

    Raises:
        UserError: A file cannot be read, the dimensions differ, or the ground truth names ids without a vector.
    """
    truth = (
        ground_truth
        if isinstance(ground_truth, Mapping)
        else read_ground_truth(_as_path(ground_truth, "the ground truth"))
    )
    if not isinstance(truth, GroundTruth):
        for query, copied in truth.items():
            if copied is not None and not isinstance(copied, str):
                raise UserError(
                    f"the ground truth of {query!r} is {reprlib.repr(copied)}. Give one reference's id, or None."
                )
        truth = GroundTruth(
            list(truth), frozenset((query, copied) for query, copied in truth.items() if copied is not None)
        )
    return rank_vectors(read_set(queries), open_set(references, "reference"), truth)[0]


def normalize(
    queries: ArrayLike, training: ArrayLike, beta: float = DEFAULTS.beta2[0], method: Method = "method2"
) -> Float32s:
    """Move queries [n, d] away from their nearest training vectors [m, d], which show no copies (ISC2021, section 2.7).

    Both are scaled to unit length first. The other parameters are the paper's, as the defaults are.

    Raises:
        UserError: The dimensions differ, or there are fewer training vectors than the method looks at.
    """
    if method not in get_args(Method):
        raise UserError(f"method {method!r}: give {', '.join(get_args(Method))}.")
    asked, held = (projection.scale_to_unit_length(_as_rows(given)) for given in (queries, training))
    _check_dimensions(asked.shape[1], held.shape[1], "the training vectors")
    with prefix_errors("the training vectors to normalise against"):
        return normalization.normalize_by_variant(
            asked, held, variant.Variant(asked.shape[1], 0.0, method, beta), DEFAULTS
        )


def reduce(vectors: ArrayLike, training: ArrayLike, dimensions: int) -> Float32s:
    """Project vectors [n, d] on the first principal axes of training vectors [m, d] (ISC2021, section 2.6): [n, dimensions].

    Vectors are scaled to unit length before and after; zero rows stay zero.

    Raises:
        UserError: The dimensions differ, or there are too few training vectors or dimensions for as many axes.
    """
    given, held = (projection.scale_to_unit_length(_as_rows(part)) for part in (vectors, training))
    _check_dimensions(given.shape[1], held.shape[1], "the training vectors")
    return projection.fit_projection(held, dimensions).apply(given, dimensions, 0.0)


def reduce_vectors(parts: Sequence[Vectors], training: Vectors, dimensions: int) -> list[Vectors]:
    """Return several sets of vectors reduced as `reduce` does."""
    found = (reduce(part.vectors, training.readable(), dimensions) for part in parts)
    return [Vectors(part.ids, vectors, part.unreadable) for part, vectors in zip(parts, found, strict=True)]


def rank_vectors(queries: Vectors, references: VectorSet, truth: GroundTruth) -> tuple[Scores, RankedPairs]:
    """Score vectors of the same dimension.

    Raises:
        UserError: The dimensions differ, or the ground truth names ids without a vector.
    """
    _check_dimensions(queries.dimensions, references.dimensions, "the references")
    return evaluate(queries, references, truth)


def normalize_vectors(queries: Vectors, training: Vectors) -> Vectors:
    """Return the queries normalised as `normalize` does; the unreadable ones stay zero."""
    moved = normalize(queries.vectors, training.readable()) if len(queries) else queries.vectors
    moved[queries.unreadable] = 0
    return Vectors(queries.ids, moved, queries.unreadable)


def read_set(source: Source, part: Part = "query") -> Vectors:
    """Return the vectors of a file or of a mapping; of a file in the challenge's form a part.

    Raises:
        UserError: The file cannot be read, or the vectors have different lengths.
    """
    found = open_set(source, part)
    return found if isinstance(found, Vectors) else read_vectors(Path(source))  # type: ignore[arg-type]  # a mapping is held


def open_set(source: Source, part: Part) -> VectorSet:
    """Return the same; those of a vectors file are read in blocks when they are searched.

    Raises:
        UserError: As for `read_set`.
    """
    if isinstance(source, Mapping):
        return _hold(source)
    path = _as_path(source, "vectors")
    if path.suffix == ".npy":
        return _read_npy(path)
    return _read_part(path, part) if _is_submission(path) else open_vectors(path)


def _as_path(source: object, what: str) -> Path:
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__
        raise UserError(
            f"{what}: {reprlib.repr(source)} is of type {kind}. Give the path of a file, or a dict by id."
        )
    return Path(source)


def _as_rows(given: ArrayLike) -> Float32s:
    """Return vectors as rows [n, d] of a norm of at most MAX_NORM."""
    try:
        if np.iscomplexobj(given):
            raise ValueError("complex numbers")
        with np.errstate(over="ignore"):
            rows = np.atleast_2d(np.asarray(given, np.float32))
            norms = np.linalg.norm(rows, axis=-1)  # infinite where they are too large for float32
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{reprlib.repr(given)} holds no vectors ({error}). Give an array [n, d] of numbers."
        ) from error
    if rows.ndim != 2 or not rows.shape[1]:
        raise UserError(
            f"{reprlib.repr(given)} has the shape {rows.shape}. Give an array [n, d] of numbers."
        )
    if not (norms <= MAX_NORM).all():
        raise UserError(
            f"{reprlib.repr(given)} holds NaN, infinity, or a norm above {MAX_NORM:.0e}. Give an array of finite numbers."
        )
    return rows


def _read_npy(path: Path) -> Vectors:
    """Read an array [n, d] that `numpy.save` wrote; ids are the numbers of its rows, from 0."""
    try:
        with open_regular(path) as file:
            content = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path} is not a .npy file that can be read ({error}). Write it with numpy.save."
        ) from error
    with prefix_errors(path):
        rows = _as_rows(content)
    return Vectors(list(map(str, range(len(rows)))), rows, np.zeros(len(rows), bool))


def _hold(vectors: Mapping[str, ArrayLike]) -> Vectors:
    arrays = []
    for name, vector in vectors.items():
        with prefix_errors(f"the vector of {name!r}"):
            arrays.append(_as_rows(vector).ravel())
    if len({len(array) for array in arrays}) != 1:
        raise UserError(
            f"got vectors of {sorted({len(array) for array in arrays})} dimensions; all need the same number."
        )
    return Vectors(list(vectors), np.stack(arrays), np.zeros(len(arrays), bool))


def _is_submission(path: Path) -> bool:
    """Whether a file has the challenge's form, with queries and references in one file."""
    if not path.is_file() or is_parquet(path):
        return False
    try:
        with open_hdf5(path) as file:
            return "query" in file and "vectors" not in file
    except HDF5_ERRORS:
        return False  # whoever reads it as vectors says what is wrong


def _read_part(path: Path, part: Part) -> Vectors:
    with open_hdf5(path) as file:
        for name in (part, f"{part}_ids"):
            if (problem := describe_dataset_problem(file, name)) is not None:
                raise UserError(f"{path}: {problem}.")
        return _hold(
            dict(zip(read_ids(file[f"{part}_ids"]), np.asarray(file[part], np.float32), strict=True))
        )


def _check_dimensions(queries: int, others: int, name: str) -> None:
    if queries != others:
        raise UserError(
            f"the queries have {queries} dimensions, {name} {others}. Give vectors of one network."
        )
