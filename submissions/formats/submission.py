"""The descriptor submission and the platform's rules for it."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from image_copies.data.arrays import Bools, Float32s, Int64s
from image_copies.data.errors import UserError
from image_copies.data.files import whole_file

from ..settings import MAX_DIMENSIONS
from ..vectors import files, hdf5

# unreadable queries and references lie this far from the origin, on opposite sides: they match nothing
UNREADABLE_DISTANCE = 1e3
UNREADABLE_SIDES = (UNREADABLE_DISTANCE, -UNREADABLE_DISTANCE)  # of queries and references
DATASET_NAMES = (("query", "query_ids"), ("reference", "reference_ids"))


def write_submission(path: Path, queries: files.Vectors, references: files.VectorSet) -> None:
    """Write `query` [n, d] and `reference` [m, d] float32 with their ids, sorted by id, atomically.

    Unreadable images get vectors so far away that they match nothing.

    Raises:
        UserError: when the file would break a rule, with a message that lists every problem; or when the disk is full.
    """
    with whole_file(path) as temporary:
        with hdf5.create_hdf5(temporary) as (file, check):
            for (name, ids_name), part, side in zip(
                DATASET_NAMES, (queries, references), UNREADABLE_SIDES, strict=True
            ):
                order = np.array(sorted(range(len(part)), key=part.ids.__getitem__), np.int64)
                row = 0
                vectors = file.create_dataset(None, (len(part), part.dimensions), np.float32)
                for block in _arrange(part, order, side):
                    vectors[row : row + len(block)] = block
                    check()
                    row += len(block)
                file[name] = vectors
                file.create_dataset(
                    ids_name,
                    data=np.array([part.ids[row] for row in order], object),
                    dtype=h5py.string_dtype("utf-8"),
                )
        problems = find_submission_problems(temporary, sorted(queries.ids), sorted(references.ids))
        if problems:
            raise UserError(
                f"{path} was not written, it would have {len(problems)} problem(s):\n  "
                + "\n  ".join(problems)
            )


def open_submission(path: Path) -> tuple[files.Vectors, files.StoredVectors]:
    """Read the queries of a valid submission; its references are read in blocks when they are searched.

    Raises:
        UserError: when the file breaks a rule; the message lists every problem.
    """
    problems = find_submission_problems(path)
    if problems:
        raise UserError(
            f"{path} is not a valid submission, {len(problems)} problem(s):\n  " + "\n  ".join(problems)
        )
    with hdf5.open_hdf5(path) as file:
        queries, references = (files.read_ids(file[ids_name]) for _, ids_name in DATASET_NAMES)
        vectors = np.asarray(file["query"], dtype=np.float32)
        dimensions = file["reference"].shape[1]
    read = partial(_read_references, path.absolute())
    return (
        files.Vectors(queries, vectors, np.zeros(len(queries), bool)),
        files.StoredVectors(references, dimensions, np.zeros(len(references), bool), read),
    )


def _read_references(path: Path, first: int, last: int) -> Float32s:
    try:
        with hdf5.open_hdf5(path) as file:
            return np.asarray(file["reference"][first:last], np.float32)
    except (*hdf5.HDF5_ERRORS, FileNotFoundError) as error:
        raise UserError(f"{path} cannot be read any longer ({error}). Repeat the command.") from error


def find_submission_problems(
    path: Path, query_ids: list[str] | None = None, reference_ids: list[str] | None = None
) -> list[str]:
    """List everything in a submission that the platform would reject, a line for each; empty if the file is valid.

    Without ids, those that it must have are not known.
    """
    if not path.is_file():
        return ["there is no such file"]
    try:
        with hdf5.open_hdf5(path) as file:
            needed = [name for part in DATASET_NAMES for name in part]
            wrong = {
                name: problem
                for name in needed
                if (problem := hdf5.describe_dataset_problem(file, name)) is not None
            }
            if "is missing" in wrong.values() or "is not a data set" in wrong.values():
                found = ", ".join(f"{name} {problem}" for name, problem in wrong.items())
                return [f"{found}; a submission holds the data sets {', '.join(needed)}"]
            if wrong:
                found = ", ".join(f"{name} {problem}" for name, problem in wrong.items())
                return [f"data sets cannot be read from this file alone: {found}"]
            problems = [
                problem
                for name, ids_name in DATASET_NAMES
                for problem in _find_form_problems(name, ids_name, file)
            ]
            if problems:
                return problems
            for (name, ids_name), expected in zip(DATASET_NAMES, (query_ids, reference_ids), strict=True):
                ids = files.read_ids(file[ids_name])
                problems += _find_vector_problems(name, file[name], ids)
                problems += _find_id_problems(ids_name, ids, len(file[name]), expected)
            if file["query"].shape[1:] != file["reference"].shape[1:]:
                shapes = f"{list(file['query'].shape)} and {list(file['reference'].shape)}"
                problems.append(f"query and reference have different dimensions: {shapes}")
            return problems
    except UnicodeDecodeError as error:
        return [f"an id is not UTF-8 text ({error}); ids are strings such as Q00000"]
    except hdf5.HDF5_ERRORS as error:
        return [f"it is not a complete HDF5 file ({error})"]


def describe_oddities(queries: files.Vectors, references: files.VectorSet) -> list[str]:
    """Describe what is allowed in a submission but rarely meant: unreadable images, zero vectors and repeated ones."""
    found = []
    for (name, _), part, side in zip(DATASET_NAMES, (queries, references), UNREADABLE_SIDES, strict=True):
        away = _find_moved_away(part, side)
        if away.any():
            first = part.ids[int(np.argmax(away))]
            found.append(
                f"{name}: {away.sum()} of {len(part)} images could not be read, the first is {first!r}"
            )
        found += files.describe_repeated(name, part, away)
    return found


def _arrange(part: files.VectorSet, order: Int64s, side: float) -> Iterator[Float32s]:
    """Yield the vectors in this order [n], in blocks; those of unreadable images lie far away, on this side."""
    readable, numbers = part.readable(), np.cumsum(~part.unreadable) - 1  # of readable images
    for start in range(0, len(order), files.ROWS_PER_BLOCK):
        rows = order[start : start + files.ROWS_PER_BLOCK]
        block = np.zeros((len(rows), part.dimensions), np.float32)
        found = ~part.unreadable[rows]
        block[~found, 0] = side
        if found.any():
            chosen, places = np.unique(numbers[rows[found]], return_inverse=True)
            block[found] = files.take_rows(readable, chosen)[places]
        yield block


def _find_moved_away(part: files.VectorSet, side: float) -> Bools:
    """Return which vectors [n] are those of unreadable images of a submission."""
    away = np.zeros(len(part), bool)
    rows = np.flatnonzero(~part.unreadable)
    for shard in files.divide_rows(part.readable(), files.ROWS_PER_BLOCK):
        vectors = shard.load()
        away[rows[shard.first : shard.first + len(vectors)]] = (vectors[:, 0] == side) & ~vectors[
            :, 1:
        ].any(axis=1)
    return away


def _find_form_problems(name: str, ids_name: str, file: h5py.File) -> list[str]:
    """List problems of shape and type that prevent all further checks."""
    vectors, ids = file[name], file[ids_name]
    problems = []
    if len(vectors.shape or ()) != 2:
        problems.append(f"{name} has the shape {list(vectors.shape or ())}; expected [images, dimensions]")
    if len(ids.shape or ()) != 1 or h5py.check_string_dtype(ids.dtype) is None:
        found = f"{ids.dtype} {list(ids.shape or ())}"
        problems.append(f"{ids_name} is {found}; expected strings [images], such as Q00000")
    return problems


def _find_vector_problems(name: str, vectors: h5py.Dataset, ids: list[str]) -> list[str]:
    problems = []
    if vectors.dtype != np.float32:
        problems.append(f"{name} is {vectors.dtype}; expected float32")
    if not 1 <= vectors.shape[1] <= MAX_DIMENSIONS:
        problems.append(
            f"{name} has {vectors.shape[1]} dimensions; 1…{MAX_DIMENSIONS} are allowed (ensemble.dimensions)"
        )
    if np.issubdtype(vectors.dtype, np.floating):
        starts = range(0, max(1, len(vectors)), files.ROWS_PER_BLOCK)
        blocks = (vectors[start : start + files.ROWS_PER_BLOCK].astype(np.float64) for start in starts)
        lengths = np.concatenate([np.linalg.norm(block, axis=1) for block in blocks])
        finite = np.isfinite(lengths)
        for wrong, problem in (
            (~finite, "hold NaN or infinity"),
            (
                finite & (lengths > files.MAX_NORM),
                f"have a norm above {files.MAX_NORM:.0e}, whose squared distances may overflow",
            ),
        ):
            if wrong.any():
                first = int(np.argmax(wrong))
                image = f" ({ids[first]!r})" if first < len(ids) else ""
                problems.append(f"{name}: {wrong.sum()} rows {problem}, the first is row {first}{image}")
    return problems


def _find_id_problems(name: str, ids: list[str], rows: int, expected: list[str] | None) -> list[str]:
    problems = []
    if len(ids) != rows:
        problems.append(f"{name} has {len(ids)} ids for {rows} vectors")
    counts = Counter(ids)
    double = [image_id for image_id, count in counts.items() if count > 1]
    if double:
        problems.append(f"{name}: {len(double)} ids are repeated, the first is {double[0]!r}")
    if ids != sorted(ids):
        at = next(row for row in range(1, len(ids)) if ids[row] < ids[row - 1])
        problems.append(f"{name} is not sorted: {ids[at]!r} follows {ids[at - 1]!r}")
    if expected is not None:
        known = set(expected)
        missing = sorted(known - counts.keys())
        unknown = sorted(counts.keys() - known)
        if missing:
            problems.append(f"{name}: {len(missing)} images have no vector, the first is {missing[0]!r}")
        if unknown:
            problems.append(f"{name}: {len(unknown)} ids belong to no image, the first is {unknown[0]!r}")
    return problems
