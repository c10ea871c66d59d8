"""Safe HDF5: untrusted files are read in bounded memory, and a full disk while writing or closing raises OSError."""

import io
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from image_copies.data.remote import RemotePath

# Damaged or hostile files declare huge data sets and store almost nothing.
# declared size ≤ MAX_EXPANSION · stored size + MAX_UNSTORED_BYTES
MAX_EXPANSION, MAX_UNSTORED_BYTES = 1000, 2**20
# what h5py raises on damaged files
HDF5_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError)


def describe_dataset_problem(file: h5py.File, name: str) -> str | None:
    """Say why a data set cannot be read from this file alone in bounded memory, such as "is missing"; None where it can be."""
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
        declared = int(dataset.size or 0) * dataset.dtype.itemsize
        stored = dataset.id.get_storage_size()
        if declared > MAX_EXPANSION * stored + MAX_UNSTORED_BYTES:
            return f"declares {declared:,} bytes but stores {stored:,}"
    except HDF5_ERRORS as error:
        return f"is damaged ({error})"
    return None


def refuse_endless_strings(dataset: h5py.Dataset) -> None:
    """Refuse strings of variable length that HDF5 would read for ever or into gigabytes of memory.

    Such strings are stored apart from the data set, in collections ("global heaps") of objects that give their own length. HDF5
    goes on from an object of no length without end, as where a disk left zeros, and nothing interrupts it. Files on object stores
    are not looked into.

    Raises:
        ValueError: the strings are damaged, or stored in a way that cannot be checked.
    """
    if (
        h5py.check_string_dtype(dataset.dtype) is None
        or h5py.check_string_dtype(dataset.dtype).length is not None
    ):
        return
    file = dataset.file
    if file.driver == "fileobj" or not dataset.size:
        return
    if file.id.get_create_plist().get_sizes() != (8, 8):
        raise ValueError("its addresses do not have 8 bytes, as usual")
    with (
        Path(file.filename).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        references = np.frombuffer(b"".join(_read_references(dataset, content)), _REFERENCE)
        if (references["length"] > len(content)).any():
            raise ValueError("its strings are longer than the file")
        objects = 0
        for address in np.unique(references["address"][references["length"] > 0]).tolist():
            objects += _count_objects(content, address + file.userblock_size)
            if objects > len(content) // _OBJECT.size:
                raise ValueError("its strings overlap")


# of a string of variable length
_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("object", "<u4")])


def _read_references(dataset: h5py.Dataset, content: mmap.mmap) -> Iterator[bytes]:
    """Yield what the data set itself stores: `_REFERENCE` for each of its strings."""
    if dataset.chunks is None:
        if dataset.id.get_create_plist().get_layout() != h5py.h5d.CONTIGUOUS:
            raise ValueError("its strings are stored in an unusual way")
        start = dataset.id.get_offset()
        stored = dataset.id.get_storage_size()
        if start is not None:  # None where nothing was ever written
            yield content[start : start + stored // _REFERENCE.itemsize * _REFERENCE.itemsize]
        return
    if (
        dataset.compression not in (None, "gzip")
        or dataset.shuffle
        or dataset.fletcher32
        or dataset.scaleoffset
    ):
        raise ValueError("its strings are compressed in an unusual way; store them plainly or with gzip")
    size = int(np.prod(dataset.chunks)) * _REFERENCE.itemsize
    for number in range(dataset.id.get_num_chunks()):
        mask, raw = dataset.id.read_direct_chunk(dataset.id.get_chunk_info(number).chunk_offset)
        if dataset.compression == "gzip" and not mask:
            try:
                raw = zlib.decompressobj().decompress(raw, size)
            except zlib.error as error:
                raise ValueError(f"its strings cannot be unpacked ({error})") from error
        yield raw[: len(raw) // _REFERENCE.itemsize * _REFERENCE.itemsize]


def _count_objects(content: mmap.mmap, start: int) -> int:
    """Count the objects of a collection, which fill it, each with its own length.

    Raises:
        ValueError: they do not.
    """
    if content[start : start + 4] != b"GCOL":
        return 0  # HDF5 says so
    count = 0
    end = start + int.from_bytes(content[start + 8 : start + 16], "little")
    place = start + _OBJECT.size
    while place + _OBJECT.size <= end:
        if place + _OBJECT.size > len(content):
            raise ValueError("its strings are cut off")
        number, _, _, length = _OBJECT.unpack_from(content, place)
        taken = _OBJECT.size + -(-length // 8) * 8 if number else length  # what is free counts its own head
        if not 0 < taken <= end - place:
            raise ValueError("its strings are damaged")
        count, place = count + 1, place + taken
    return count


_OBJECT = struct.Struct("<HHIQ")  # number, references to it, nothing, length


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
