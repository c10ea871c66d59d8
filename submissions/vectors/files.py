"""The vectors file: HDF5 with `ids` (UTF-8), `vectors` (float32 or float16 [n, d]) and, optionally, `unreadable` (bool [n]).

A name that ends in .parquet stands for the same in Parquet (`parquet.py`). Rows of vectors, in memory or in a file, are divided
into shards that other processes can load.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Bools, Float32s, Int64s
from image_copies.data.errors import StorageError, UserError
from image_copies.data.files import whole_file
from image_copies.data.remote import as_path
from image_copies.data.sources.tables import is_parquet

from .hdf5 import HDF5_ERRORS, create_hdf5, describe_dataset_problem, open_hdf5, refuse_endless_strings
from .parquet import describe_parquet, iterate_parquet, write_parquet

ROWS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class RowsShard:
    """Consecutive rows, which are loaded where they are needed.

    Attributes:
        first: Number of the first one.
        count: How many they are.
        load: Returns them [n, d]; raises UserError where a file is missing or damaged.
    """

    first: int
    count: int
    load: Callable[[], Float32s]

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class StoredRows:
    """The vectors of a file's readable images, which need not fit into memory.

    Attributes:
        read: Returns rows [n, d] of the file from the first number up to before the second, in any process.
        unreadable: Flags of all of its rows, bool [m].
    """

    read: Callable[[int, int], Float32s]
    unreadable: Bools

    def __len__(self) -> int:
        return int(np.count_nonzero(~self.unreadable))

    def divide(self, size: int) -> list[RowsShard]:
        """Divide the rows of the file, unreadable ones included, into shards of `size`; shards of these alone are left out."""
        shards = []
        first = 0
        for start in range(0, len(self.unreadable), size):
            chosen = ~self.unreadable[start : start + size]
            count = int(np.count_nonzero(chosen))
            if count:
                shards.append(RowsShard(first, count, partial(_load, self.read, start, chosen)))
            first += count
        return shards


VectorRows = Float32s | StoredRows  # vectors [n, d]


def _load(read: Callable[[int, int], Float32s], start: int, chosen: Bools) -> Float32s:
    rows = read(start, start + len(chosen))
    return rows if chosen.all() else rows[chosen]


def divide_rows(vectors: VectorRows, size: int) -> list[RowsShard]:
    """Divide vectors [n, d], in memory or in files, into shards of `size` rows."""
    if not isinstance(vectors, np.ndarray):
        return vectors.divide(size)
    parts = ((first, vectors[first : first + size]) for first in range(0, len(vectors), max(size, 1)))
    return [RowsShard(first, len(part), partial(np.asarray, part)) for first, part in parts]


def join_blocks(blocks: Iterable[Float32s], count: int, dimensions: int) -> Float32s:
    """Return blocks [m, d] of so many rows as one array, with one further block in memory."""
    joined, row = np.empty((count, dimensions), np.float32), 0
    for block in blocks:
        joined[row : row + len(block)] = block
        row += len(block)
    return joined


def take_rows(vectors: VectorRows, chosen: Int64s) -> Float32s:
    """Return chosen rows [m, d] of vectors [n, d] in memory or in files, of which only the blocks that hold them are read.

    They are int64 [m] of 0 … n − 1, ascending without repetitions; without any, nothing is read and d is 0.

    Raises:
        UserError: when a file is damaged.
    """
    if isinstance(vectors, np.ndarray):
        return vectors[chosen]
    parts: list[Float32s] = []
    for shard in vectors.divide(ROWS_PER_BLOCK) if len(chosen) else ():
        begin, end = np.searchsorted(chosen, [shard.first, shard.first + len(shard)])
        if begin < end:
            parts.append(shard.load()[chosen[begin:end] - shard.first])
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)


ROWS_READ = 65_536
# Euclidean norm; keeps squared distances (4e30 at most) far from the limit of float32, 3.4e38
MAX_NORM = 1e15


@dataclass(frozen=True)
class Vectors:
    """Vectors in memory."""

    ids: list[str]  # n of them
    vectors: Float32s  # [n, d]
    # [n], True for images that could not be decoded: their rows are zero and match nothing
    unreadable: Bools

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        """Dimensions d."""
        return int(self.vectors.shape[1])

    def rows(self, ids: list[str]) -> "Vectors":
        """Return the vectors of `ids`, in that order.

        Raises:
            UserError: when an id has no vector; the message names the first.
        """
        where = {image_id: row for row, image_id in enumerate(self.ids)}
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(
                f"{len(missing)} ids have no vector, the first is {missing[0]!r}. Embed the images again (step 02)."
            )
        chosen = [where[image_id] for image_id in ids]
        return Vectors(list(ids), self.vectors[chosen], self.unreadable[chosen])

    def readable(self) -> Float32s:
        """Return the vectors [m, d] of readable images only; `vectors` itself where all are readable."""
        return self.vectors[~self.unreadable] if self.unreadable.any() else self.vectors


@dataclass(frozen=True)
class StoredVectors:
    """What `Vectors` are in memory: those of a file, read in blocks when they are searched."""

    ids: list[str]  # n of them
    dimensions: int
    unreadable: Bools  # [n], True for images that could not be decoded
    read: Callable[[int, int], Float32s]  # as in `StoredRows`

    def __len__(self) -> int:
        return len(self.ids)

    def readable(self) -> StoredRows:
        """Return the vectors of readable images only."""
        return StoredRows(self.read, self.unreadable)


VectorSet = Vectors | StoredVectors


def write_vectors(
    path: Path | str,
    ids: list[str],
    blocks: Iterable[Float32s],
    unreadable: Bools | None = None,
    half: bool = False,
) -> None:
    """Write a vectors file atomically: ids of n rows, and blocks of them, float32 [m, d], in their order.

    `unreadable` bool [n] is read after the last block, so that the iterator of blocks may fill it. With `half` the vectors are
    stored as float16, in half the space; they are read as float32 all the same.

    Raises:
        ValueError: when the numbers of rows and ids differ.
        UserError: when the disk is full, or the object store cannot be written to.
    """
    if is_parquet(path):
        with whole_file(as_path(path)) as temporary:
            _check_count(write_parquet(temporary, ids, blocks, half), ids)
        return
    strings = h5py.string_dtype("utf-8")
    with whole_file(as_path(path)) as temporary, create_hdf5(temporary) as (file, check):
        file.create_dataset("ids", data=np.array(ids, dtype=object), dtype=strings)
        stored, row = None, 0
        for block in blocks:
            if stored is None:
                stored = file.create_dataset(
                    "vectors", shape=(len(ids), block.shape[1]), dtype=np.float16 if half else np.float32
                )
            stored[row : row + len(block)] = block
            check()
            row += len(block)
        _check_count(row, ids)
        file.create_dataset(
            "unreadable", data=np.zeros(len(ids), bool) if unreadable is None else unreadable
        )


def read_vectors(path: Path | str) -> Vectors:
    """Read a whole vectors file into memory.

    Raises:
        UserError: when the file is missing, is not a vectors file or holds invalid vectors.
    """
    found = open_vectors(path)
    return Vectors(
        found.ids, join_blocks(iterate_vectors(path), len(found), found.dimensions), found.unreadable
    )


def is_vectors(path: Path) -> bool:
    """Whether a file is a vectors file.

    Raises:
        StorageError: the object store that holds it cannot be used.
    """
    try:
        open_vectors(path)
    except StorageError:
        raise
    except UserError:
        return False
    return True


def open_vectors(path: Path | str) -> StoredVectors:
    """Read the ids, dimensions and flags of a vectors file; invalid vectors are reported when they are read.

    Raises:
        UserError: when the file is missing, or a data set is missing or has an unexpected shape or type, or an id is repeated.
    """
    if is_parquet(path):
        ids, dimensions, unreadable = describe_parquet(as_path(path))
        _check_unique(path, ids)
        return StoredVectors(ids, dimensions, unreadable, partial(_read_rows, as_path(path).absolute()))
    with _open_hdf5(path) as file:
        for name in ("ids", "vectors", *(["unreadable"] if "unreadable" in file else [])):
            problem = describe_dataset_problem(file, name)
            if problem in ("is missing", "is not a data set"):
                raise UserError(
                    f"{path} has no data set {name!r}; a vectors file holds ids and vectors. Embed the images again (step 02)."
                )
            if problem is not None:
                raise UserError(
                    f"{path}: the data set {name!r} {problem}. Delete the file and repeat the step that wrote it."
                )
        vectors, stored = file["vectors"], file["ids"]
        if len(vectors.shape or ()) != 2 or vectors.dtype not in (np.float32, np.float16):
            raise UserError(
                f"{path}: vectors are {vectors.dtype} {list(vectors.shape or ())}; expected float32 or float16 [n, d]. "
                "Convert them, or embed the images again (step 02)."
            )
        if len(stored.shape or ()) != 1 or h5py.check_string_dtype(stored.dtype) is None:
            raise UserError(
                f"{path}: ids are {stored.dtype} {list(stored.shape or ())}; expected strings [n], one for each vector. "
                "Convert them, or embed the images again (step 02)."
            )
        ids = read_ids(stored)
        if len(ids) != len(vectors):
            raise UserError(
                f"{path} holds {len(ids)} ids but {len(vectors)} vectors. Embed the images again (step 02)."
            )
        _check_unique(path, ids)
        unreadable = (
            np.asarray(file["unreadable"], dtype=bool) if "unreadable" in file else np.zeros(len(ids), bool)
        )
        if unreadable.shape != (len(ids),):
            raise UserError(
                f"{path}: flags of unreadable images are {list(unreadable.shape)}; expected one for each of its {len(ids)} "
                "vectors. Embed the images again (step 02)."
            )
        return StoredVectors(
            ids, vectors.shape[1], unreadable, partial(_read_rows, as_path(path).absolute())
        )


def _read_rows(path: Path, first: int, last: int) -> Float32s:
    (rows,) = iterate_vectors(path, last - first, first=first, last=last)
    return rows


def iterate_vectors(
    path: Path | str, block: int = ROWS_READ, *, first: int = 0, last: int | None = None
) -> Iterator[Float32s]:
    """Yield rows in order, in blocks [≤ block, d] float32, from row `first` up to the one before `last`, or to the end.

    Raises:
        UserError: when the file is missing or damaged, or a block holds NaN, infinity, a norm above MAX_NORM or a zero vector
            that is not flagged unreadable.
    """
    blocks = (
        iterate_parquet(as_path(path), block, first, last)
        if is_parquet(path)
        else _iterate_hdf5(path, block, first, last)
    )
    start = first
    for rows, flags in blocks:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("nd,nd->n", rows, rows)
        for wrong, problem in (
            (~(squares <= MAX_NORM**2), f"hold NaN or infinity, or have a norm above {MAX_NORM:.0e}"),
            ((squares == 0) & ~flags, "are zero without being flagged unreadable"),
        ):
            found = np.flatnonzero(wrong)
            if len(found):
                first_id = open_vectors(path).ids[start + found[0]]
                raise UserError(
                    f"{path}: {len(found)} of the rows from {start} {problem}, the first is row {start + found[0]} "
                    f"({first_id!r}). Either the model that made them diverged, or the file is "
                    "damaged: delete it and repeat the step that wrote it."
                )
        yield rows
        start += len(rows)


def read_ids(stored: h5py.Dataset | NDArray[Any]) -> list[str]:
    """Return ids [n] as str, whether they are stored as strings of variable or fixed length.

    Raises:
        ValueError: strings of variable length are damaged.
    """
    if isinstance(stored, h5py.Dataset):
        refuse_endless_strings(stored)
    return [item.decode("utf-8") if isinstance(item, bytes) else str(item) for item in stored[:]]


@contextmanager
def _open_hdf5(path: Path | str) -> Iterator[h5py.File]:
    """Open a file for reading; errors of h5py inside the block become a UserError that names the file."""
    path = as_path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file. Check the path, or run the step that writes it.")
    try:
        with open_hdf5(path) as file:
            yield file
    except HDF5_ERRORS as error:
        raise UserError(
            f"{path} is not a complete HDF5 file ({error}). Delete it and repeat the step that wrote it."
        ) from error


def _iterate_hdf5(
    path: Path | str, block: int, first: int, last: int | None
) -> Iterator[tuple[Float32s, Bools]]:
    """Yield rows [m, d] and which of them are unreadable, [m]."""
    with _open_hdf5(path) as file:
        vectors = file["vectors"]
        flags = (
            np.asarray(file["unreadable"], bool) if "unreadable" in file else np.zeros(len(vectors), bool)
        )
        end = len(vectors) if last is None else min(last, len(vectors))
        for start in range(first, end, block):
            try:
                rows = vectors[start : min(start + block, end)].astype(np.float32, copy=False)
            except OSError as error:
                raise UserError(
                    f"{path} is damaged at row {start}: {error}. Delete it and repeat the step that wrote it."
                ) from error
            yield rows, flags[start : start + len(rows)]


def _check_count(rows: int, ids: Sequence[str]) -> None:
    if rows != len(ids):
        raise ValueError(f"{rows} vectors for {len(ids)} ids")


def _check_unique(path: Path | str, ids: Sequence[str]) -> None:
    if len(set(ids)) != len(ids):
        raise UserError(
            f"{path} holds {len(ids) - len(set(ids))} repeated ids; each image must have exactly one row. "
            "Remove the repeated rows, or embed the images again (step 02)."
        )


MAX_SHARE = 0.1  # of the images: above it the vectors, not the images, are likely to be at fault


def find_repeated(hashes: NDArray[np.uint64]) -> tuple[Int64s, Int64s]:
    """Return the rows [m] whose hashes [n, 2] (`hash_rows`) equal those of an earlier row, ascending, and the first such one."""
    _, first, groups = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
    firsts = first[groups.ravel()]
    rows = np.flatnonzero(firsts != np.arange(len(hashes)))
    return rows, firsts[rows]


def describe_repeated(name: str, part: VectorSet, left_out: Bools | None = None) -> list[str]:
    """Describe zero vectors and vectors that several images share, a sentence each; empty where there are none.

    `name` is what the images are, such as "query". Left out are unreadable images, whose vectors say nothing anyway, and those
    that `left_out` bool [n] marks.
    """
    rows = np.flatnonzero(~part.unreadable)
    zero = np.zeros(len(rows), bool)
    hashes = np.zeros((len(rows), 2), np.uint64)
    for shard in divide_rows(part.readable(), ROWS_PER_BLOCK):
        vectors = shard.load()
        own = slice(shard.first, shard.first + len(shard))
        zero[own] = ~vectors.any(axis=1)
        hashes[own] = hash_rows(vectors)
    if left_out is not None:
        kept = ~left_out[rows]
        rows, zero, hashes = rows[kept], zero[kept], hashes[kept]
    found = []
    repeated, firsts = find_repeated(hashes)
    if zero.any():
        found.append(
            f"{name}: {zero.sum()} vectors are zero, the first is that of {part.ids[rows[zero.argmax()]]!r}"
        )
    if len(repeated):
        first, second = (part.ids[rows[which[0]]] for which in (firsts, repeated))
        likely = (
            "a descriptor that collapsed gives such vectors"
            if len(repeated) > MAX_SHARE * len(rows)
            else "equal files have equal vectors"
        )
        found.append(
            f"{name}: {len(repeated)} of {len(rows)} vectors repeat that of an earlier image, such as {second!r} that of "
            f"{first!r}: {likely}"
        )
    return found


def hash_rows(vectors: Float32s) -> NDArray[np.uint64]:
    """Return two numbers for each row, uint64 [n, 2]: equal rows have the same; different ones do with a probability of 2⁻⁶⁶."""
    weights = np.random.default_rng(0).integers(0, 2**64, (vectors.shape[1], 2), dtype=np.uint64)
    bits = np.ascontiguousarray(vectors).view(np.uint32).astype(np.uint64)
    hashes: NDArray[np.uint64] = bits @ weights
    return hashes
