"""The vectors file: HDF5 with `ids` (UTF-8 strings), `vectors` (float32 [n, d]) and, optionally, `unreadable` (bool [n])."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from data.errors import UserError
from data.files import whole_file
from submissions.vectors.hdf5 import FAULTS, dataset_problem, new_hdf5

BLOCK = 65_536
MAX_LENGTH = 1e15  # sums of squares of longer vectors overflow float32


@dataclass(frozen=True)
class Vectors:
    """Vectors in memory.

    Attributes:
        ids: of the images, n of them.
        vectors: float32 [n, d].
        unreadable: bool [n]; such rows stand for no image, are zero and match nothing.
    """

    ids: list[str]
    vectors: NDArray[np.float32]
    unreadable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: list[str]) -> "Vectors":
        """The rows of `ids`, in that order.

        Raises:
            UserError: an id has no vector; the message names the first.
        """
        where = {image_id: row for row, image_id in enumerate(self.ids)}
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(f"{len(missing)} ids have no vector, the first is {missing[0]!r}. Embed the images again (step 02).")
        chosen = [where[image_id] for image_id in ids]
        return Vectors(list(ids), self.vectors[chosen], self.unreadable[chosen])

    def readable(self) -> NDArray[np.float32]:
        """The vectors of readable images only [m, d]; `vectors` itself where all are."""
        return self.vectors[~self.unreadable] if self.unreadable.any() else self.vectors


@dataclass(frozen=True)
class VectorsShape:
    """What a vectors file holds, without its vectors.

    Attributes:
        ids: of the images, n of them.
        dimensions: d.
        unreadable: bool [n], the marks.
    """

    ids: list[str]
    dimensions: int
    unreadable: NDArray[np.bool_]


def write_vectors(
    path: Path | str, ids: list[str], blocks: Iterable[NDArray[np.float32]], unreadable: NDArray[np.bool_] | None = None
) -> None:
    """Write a vectors file, whole or not at all.

    Args:
        path: of the file.
        ids: of all rows.
        blocks: rows [m, d] float32, in the order of `ids`.
        unreadable: bool [n]; read last, so that whoever makes the blocks may fill it meanwhile.

    Raises:
        ValueError: rows and ids differ in number.
        UserError: the disk is full.
    """
    strings = h5py.string_dtype("utf-8")
    with whole_file(Path(path)) as temporary, new_hdf5(temporary) as (file, check):
        file.create_dataset("ids", data=np.array(ids, dtype=object), dtype=strings)
        stored, row = None, 0
        for block in blocks:
            if stored is None:
                stored = file.create_dataset("vectors", shape=(len(ids), block.shape[1]), dtype=np.float32)
            stored[row : row + len(block)] = block
            check()
            row += len(block)
        if row != len(ids):
            raise ValueError(f"{row} vectors for {len(ids)} ids")
        file.create_dataset("unreadable", data=np.zeros(len(ids), bool) if unreadable is None else unreadable)


def read_vectors(path: Path | str) -> Vectors:
    """Read a whole vectors file into memory.

    Raises:
        UserError: the file is missing, is no vectors file or holds invalid vectors.
    """
    shape = describe_vectors(path)
    vectors, row = np.empty((len(shape.ids), shape.dimensions), np.float32), 0
    for block in iterate_vectors(path):
        vectors[row : row + len(block)] = block
        row += len(block)
    return Vectors(shape.ids, vectors, shape.unreadable)


def describe_vectors(path: Path | str) -> VectorsShape:
    """Read ids, dimensions and marks of a vectors file, but not its vectors.

    Raises:
        UserError: the file is missing or is no vectors file: data sets, shapes, types, ids.
    """
    with _open_hdf5(path) as file:
        for name in ("ids", "vectors", *(["unreadable"] if "unreadable" in file else [])):
            problem = dataset_problem(file, name)
            if problem in ("is missing", "is no data set"):
                raise UserError(f"{path} has no data set {name!r}; a vectors file holds ids and vectors. Embed again (step 02).")
            if problem is not None:
                raise UserError(f"{path}: the data set {name!r} {problem}. Delete the file and do the step that wrote it again.")
        vectors, stored = file["vectors"], file["ids"]
        if len(vectors.shape or ()) != 2 or vectors.dtype != np.float32:
            raise UserError(f"{path}: vectors are {vectors.dtype} {list(vectors.shape or ())}; expected float32 [n, d].")
        if len(stored.shape or ()) != 1 or h5py.check_string_dtype(stored.dtype) is None:
            raise UserError(f"{path}: ids are {stored.dtype} {list(stored.shape or ())}; expected strings, one for each vector.")
        ids = read_ids(stored)
        if len(ids) != len(vectors):
            raise UserError(f"{path} holds {len(ids)} ids but {len(vectors)} vectors. Embed again (step 02).")
        if len(set(ids)) != len(ids):
            raise UserError(f"{path} holds {len(ids) - len(set(ids))} ids more than once. Each image has one row.")
        unreadable = np.asarray(file["unreadable"], dtype=bool) if "unreadable" in file else np.zeros(len(ids), bool)
        return VectorsShape(ids, vectors.shape[1], unreadable)


def iterate_vectors(path: Path | str, block: int = BLOCK) -> Iterator[NDArray[np.float32]]:
    """Yield the rows in blocks [≤ block, d] float32.

    Raises:
        UserError: at the first block with NaN, infinity, rows longer than MAX_LENGTH or an unmarked zero vector.
    """
    with _open_hdf5(path) as file:
        vectors = file["vectors"]
        marks = np.asarray(file["unreadable"], bool) if "unreadable" in file else np.zeros(len(vectors), bool)
        for start in range(0, len(vectors), block):
            try:
                rows = vectors[start : start + block]
            except OSError as error:
                raise UserError(
                    f"{path} is damaged at row {start}: {error}. Delete it and do the step that wrote it again."
                ) from error
            with np.errstate(over="ignore", invalid="ignore"):
                squares = np.einsum("nd,nd->n", rows, rows)
            for wrong, problem in (
                (~(squares <= MAX_LENGTH**2), f"hold NaN, infinity or values beyond {MAX_LENGTH:.0e}"),
                ((squares == 0) & ~marks[start : start + block], "are zero without being marked unreadable"),
            ):
                found = start + np.flatnonzero(wrong)
                if len(found):
                    raise UserError(
                        f"{path}: {len(found)} of the rows from {start} {problem}, the first is row {found[0]} "
                        f"({read_ids(file['ids'][found[:1]])[0]!r}). The model that made them diverged, or the file is damaged: "
                        "delete it and do the step that wrote it again."
                    )
            yield rows


def read_ids(stored: h5py.Dataset | NDArray[Any]) -> list[str]:
    """Ids as str, whether they are stored as variable or fixed strings."""
    return [item.decode("utf-8") if isinstance(item, bytes) else str(item) for item in stored[:]]


@contextmanager
def _open_hdf5(path: Path | str) -> Iterator[h5py.File]:
    """The open file; what a damaged one raises while it is read becomes a UserError that names it."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file.")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except FAULTS as error:
        raise UserError(f"{path} is not a whole HDF5 file ({error}). Delete it and do the step that wrote it again.") from error
