"""Safe HDF5: untrusted files are read in bounded memory, and a full disk while writing or closing raises OSError."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from data.remote import RemotePath

# Damaged or hostile files declare huge data sets and store almost nothing.
MAX_EXPANSION, MAX_UNSTORED_BYTES = 1000, 2**20  # declared size ≤ MAX_EXPANSION · stored size + MAX_UNSTORED_BYTES
HDF5_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError)  # what h5py raises on damaged files


def describe_dataset_problem(file: h5py.File, name: str) -> str | None:
    """Say why a data set cannot be read from this file alone in bounded memory.

    Returns:
        A predicate such as "is missing" to follow the data set's name in a message; None where the data set can be read.
    """
    try:
        link = file.get(name, getlink=True)
        if link is None:
            return "is missing"
        if not isinstance(link, h5py.HardLink):
            return "is a link to another place"
        dataset = file[name]
        if not isinstance(dataset, h5py.Dataset):
            return "is not a data set"
        if dataset.external or dataset.is_virtual:
            return "is stored in other files"
        declared, stored = int(dataset.size or 0) * dataset.dtype.itemsize, dataset.id.get_storage_size()
        if declared > MAX_EXPANSION * stored + MAX_UNSTORED_BYTES:
            return f"declares {declared:,} bytes but stores {stored:,}"
    except HDF5_ERRORS as error:
        return f"is damaged ({error})"
    return None


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a file for reading, on this machine or on an object store, of which only the parts that are asked for are read."""
    if not isinstance(path, RemotePath):
        with h5py.File(path, "r") as file:
            yield file
        return
    with path.open("rb") as content, h5py.File(content, "r") as file:
        yield file


@contextmanager
def create_hdf5(path: Path) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Create a file; yield it with a function that raises the first write error so far.

    Raises:
        OSError: when leaving the block, if anything could not be written, such as on a full disk.
    """
    with _Disk(path, "w+b") as disk:
        try:
            with h5py.File(disk, "w") as file:
                yield file, disk.check
        finally:
            disk.check()


class _Disk(io.FileIO):
    """A file that reports a write error only on `check`: HDF5 itself would print its error stack and might crash on closing."""

    failure: OSError | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        count = len(rest)
        while self.failure is None and len(rest):
            try:
                rest = rest[os.write(self.fileno(), rest) :]
            except OSError as error:
                self.failure = error
        return count

    def readinto(self, data: Any) -> int:
        """Read, with zeros in place of what was never written: HDF5 would interpret the garbage as addresses."""
        view = memoryview(data).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        if self.failure is None:
            try:
                return super().truncate(size)
            except OSError as error:
                self.failure = error
        return size or 0
