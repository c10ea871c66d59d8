"""HDF5 on full disks and from strangers: nothing outside of a file is read, and none is read for ever."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import load_projection
from image_copies.submissions.formats.submission import find_submission_problems, write_submission
from image_copies.submissions.vectors.files import Vectors, read_vectors, write_vectors
from image_copies.submissions.vectors.hdf5 import create_hdf5, refuse_endless_strings

IDS = [f"T{row:04d}" for row in range(100)]


def limited(room: int) -> Callable[[int, bytes], int]:
    """os.write of a disk with so many bytes left."""
    left, write = room, os.write

    def write_some(file: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, data[:left])
        left -= written
        return written

    return write_some


def write_ones(path: Path) -> None:
    write_vectors(path, IDS, [np.ones((50, 256), np.float32)] * 2)


def submission(path: Path) -> None:
    part = Vectors(IDS, np.ones((100, 256), np.float32), np.zeros(100, bool))
    write_submission(path, part, part)


@pytest.mark.parametrize("write", [write_ones, submission])
def test_a_disk_that_fills_up_at_any_time_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], write: Callable[[Path], None]
) -> None:
    """Also while the library closes the file, which HDF5 alone answers with noise or a crash."""
    write(tmp_path / "whole.h5")
    size = (tmp_path / "whole.h5").stat().st_size
    for room in (0, 2000, 99_000, 101_000, 104_000, size // 2, size - 5000, size - 2000, size - 1):
        reported = pytest.raises(UserError, match=r"v\.h5 cannot be written: the disk is full")
        with monkeypatch.context() as patched, reported:
            patched.setattr(os, "write", limited(room))
            write(tmp_path / "v.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["whole.h5"]
    assert capfd.readouterr().err == ""


def test_a_full_disk_ends_the_work_at_the_next_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", limited(0))
    with pytest.raises(OSError, match="No space left"), create_hdf5(tmp_path / "a.h5") as (file, check):
        file["block"] = np.ones(100_000, np.float32)
        check()
        raise AssertionError("the work went on")


@pytest.mark.parametrize("storage", [{}, {"chunks": (3,)}, {"compression": "gzip"}, {"maxshape": (None,)}])
@pytest.mark.parametrize("damage", ["zeros", "a longer object", "an endless object"])
def test_strings_that_would_be_read_for_ever_are_refused(tmp_path: Path, storage: dict[str, Any], damage: str) -> None:
    path, ids = tmp_path / "v.h5", [f"R{number:06d}" * (number % 3) for number in range(20)]
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("ids", data=np.array(ids, object), dtype=h5py.string_dtype("utf-8"), **storage)
    with h5py.File(path) as file:
        refuse_endless_strings(file["ids"])
        assert file["ids"].asstr()[:].tolist() == ids
    content = bytearray(path.read_bytes())
    first = content.index(b"GCOL") + 16  # an object: its number, references to it, nothing, 8 bytes of length
    if damage == "zeros":
        content[first : first + 300] = bytes(300)
    else:
        content[first + 8 : first + 16] = {"a longer object": 3000, "an endless object": 2**64 - 8}[damage].to_bytes(8, "little")
    path.write_bytes(content)
    with h5py.File(path) as file, pytest.raises(ValueError, match="strings are damaged"):
        refuse_endless_strings(file["ids"])


def test_strings_longer_than_the_file_are_refused_and_of_fixed_length_need_no_check(tmp_path: Path) -> None:
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("ids", data=np.array(["Q1"], object), dtype=h5py.string_dtype("utf-8"))
        place = file["ids"].id.get_offset()
    content = bytearray(path.read_bytes())
    content[place : place + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    with h5py.File(path) as file, pytest.raises(ValueError, match="longer than the file"):
        refuse_endless_strings(file["ids"])
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("fixed", data=np.array([b"Q1"]), compression="lzf")
        file.create_dataset("empty", shape=(0,), dtype=h5py.string_dtype("utf-8"))
        file.create_dataset("never written", shape=(5,), dtype=h5py.string_dtype("utf-8"))
    with h5py.File(tmp_path / "v.h5") as file:
        for dataset in file.values():
            refuse_endless_strings(dataset)


@pytest.mark.parametrize("storage", [{"shuffle": True}, {"compression": "lzf"}])
def test_strings_that_cannot_be_checked_are_refused(tmp_path: Path, storage: dict[str, Any]) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("ids", data=np.array(["Q1"], object), dtype=h5py.string_dtype("utf-8"), chunks=(1,), **storage)
    with h5py.File(tmp_path / "v.h5") as file, pytest.raises(ValueError, match="plainly or with gzip"):
        refuse_endless_strings(file["ids"])


STRINGS = h5py.string_dtype("utf-8")


Make = Callable[[h5py.File, str, tuple[int, ...]], object]


def write(path: Path, make: Make | None = None, names: Sequence[str] = ("vectors", "query", "axes")) -> Path:
    """A file that is at once vectors, submission and projection, of which some data sets are made in another way."""
    with h5py.File(path, "w") as file:
        for ids, vectors in (("ids", "vectors"), ("query_ids", "query"), ("reference_ids", "reference")):
            file.create_dataset(ids, data=np.array(["a", "b"], object), dtype=STRINGS)
            file[vectors] = np.ones((2, 3), np.float32)
        file["mean"], file["axes"], file["eigenvalues"] = np.zeros(3, "f4"), np.eye(3, dtype="f4"), np.ones(3, "f4")
        if make is not None:
            for name in names:
                shape = file[name].shape
                del file[name]
                make(file, name, shape)
    return path


def link(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    file[name] = h5py.SoftLink("/nowhere")


def link_elsewhere(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    file[name] = h5py.ExternalLink("other.h5", "/vectors")


def store_elsewhere(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    file.create_dataset(name, shape, np.float32, external=[("/etc/passwd", 0, 36)])


def make_virtual(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    layout = h5py.VirtualLayout(shape, np.float32)
    layout[:] = h5py.VirtualSource("other.h5", "vectors", shape)
    file.create_virtual_dataset(name, layout)


def make_sparse(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
    file.create_dataset(name, (10**9, 256), np.float32, chunks=(1024, 256), fillvalue=1)
    for ids in {"vectors": ["ids"], "query": ["query_ids"]}.get(name, []):
        del file[ids]
        file.create_dataset(ids, (10**9,), STRINGS, chunks=(1024,))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (link, "link to another place"),
        (link_elsewhere, "link to another place"),
        (store_elsewhere, "is stored in other files"),
        (make_virtual, "is stored in other files"),
        (make_sparse, r"declares [\d,]+ bytes but stores 0"),
    ],
)
def test_what_lies_elsewhere_or_nowhere_is_refused(tmp_path: Path, make: Make, problem: str) -> None:
    write(tmp_path / "other.h5")
    path = write(tmp_path / "v.h5", make)
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_memory()
    with pytest.raises(UserError, match=problem):
        read_vectors(path)
    with pytest.raises(UserError, match=problem):
        load_projection(path)
    assert problem.split()[0] in find_submission_problems(path)[0]
    assert peak_memory() - before < 100_000


def peak_memory() -> int:
    """In KiB; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def test_a_projection_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    def shorten(file: h5py.File, name: str, shape: tuple[int, ...]) -> None:
        file[name] = np.zeros(2, "f4")

    with pytest.raises(UserError, match="are inconsistent"):
        load_projection(write(tmp_path / "v.h5", shorten, ["mean"]))
