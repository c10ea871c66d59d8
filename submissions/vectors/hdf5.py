"""HDF5 from strangers, read with bounds, and written where the disk may fill up, even while the library closes the file."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

UNWRITTEN = 2**20  # bytes that a data set may promise beyond a thousand times what it holds
FAULTS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError)  # of h5py, on damaged files


def dataset_problem(file: h5py.File, name: str) -> str | None:
    """Why a data set cannot be read from this file alone, in bounded memory; None where it can."""
    try:
        link = file.get(name, getlink=True)
        if link is None:
            return "is missing"
        if not isinstance(link, h5py.HardLink):
            return "is a link to another place"
        dataset = file[name]
        if not isinstance(dataset, h5py.Dataset):
            return "is no data set"
        if dataset.external or dataset.is_virtual:
            return "lies in other files"
        promised, held = int(dataset.size or 0) * dataset.dtype.itemsize, dataset.id.get_storage_size()
        if promised > 1000 * held + UNWRITTEN:
            return f"promises {promised:,} bytes and holds {held:,}"
    except FAULTS as error:
        return f"is damaged ({error})"
    return None


@contextmanager
def new_hdf5(path: Path) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Open a new file; yield it with a function that raises the OSError of what could not be written yet, as leaving does."""
    with _Disk(path, "w+b") as disk:
        try:
            with h5py.File(disk, "w") as file:
                yield file, disk.check
        finally:
            disk.check()


class _Disk(io.FileIO):
    """A file that keeps its first failure until asked: where a write fails, HDF5 prints noise and may crash on closing."""

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
        """Fill with zeros what was never written: HDF5 would take what it finds there for addresses."""
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
