"""HDF5 files from strangers: nothing outside of the file is read, and a small file cannot fill the memory."""

import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import load_projection
from image_copies.submissions.formats.submission import find_submission_problems
from image_copies.submissions.vectors.files import read_vectors

STRINGS = h5py.string_dtype("utf-8")


def write(path: Path, change: Callable[[h5py.File], None]) -> Path:
    """A file that is at once vectors, submission and projection, changed."""
    with h5py.File(path, "w") as file:
        for ids, vectors in (("ids", "vectors"), ("query_ids", "query"), ("reference_ids", "reference")):
            file.create_dataset(ids, data=np.array(["a", "b"], object), dtype=STRINGS)
            file[vectors] = np.ones((2, 3), np.float32)
        file["mean"], file["axes"], file["eigenvalues"] = np.zeros(3, "f4"), np.eye(3, dtype="f4"), np.ones(3, "f4")
        change(file)
    return path


def soft(file: h5py.File) -> None:
    for name in ("vectors", "query", "axes"):
        del file[name]
        file[name] = h5py.SoftLink("/nowhere")


def external(file: h5py.File) -> None:
    for name in ("vectors", "query", "axes"):
        del file[name]
        file[name] = h5py.ExternalLink("other.h5", "/vectors")


def stored_elsewhere(file: h5py.File) -> None:
    for name in ("vectors", "query", "axes"):
        shape = file[name].shape
        del file[name]
        file.create_dataset(name, shape, np.float32, external=[("/etc/passwd", 0, 36)])


def virtual(file: h5py.File) -> None:
    for name in ("vectors", "query", "axes"):
        layout = h5py.VirtualLayout(file[name].shape, np.float32)
        layout[:] = h5py.VirtualSource("other.h5", "vectors", file[name].shape)
        del file[name]
        file.create_virtual_dataset(name, layout)


def sparse(file: h5py.File) -> None:
    for name in ("vectors", "query", "axes"):
        del file[name]
        file.create_dataset(name, (10**9, 256), np.float32, chunks=(1024, 256), fillvalue=1)
    for name in ("ids", "query_ids"):
        del file[name]
        file.create_dataset(name, (10**9,), STRINGS, chunks=(1024,))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (soft, "link to another place"),
        (external, "link to another place"),
        (stored_elsewhere, "is stored in other files"),
        (virtual, "is stored in other files"),
        (sparse, r"declares [\d,]+ bytes but stores 0"),
    ],
)
def test_what_lies_elsewhere_or_nowhere_is_refused(tmp_path: Path, change: Callable[[h5py.File], None], problem: str) -> None:
    write(tmp_path / "other.h5", lambda file: None)
    path = write(tmp_path / "v.h5", change)
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
    def shorter(file: h5py.File) -> None:
        del file["mean"]
        file["mean"] = np.zeros(2, "f4")

    with pytest.raises(UserError, match="are inconsistent"):
        load_projection(write(tmp_path / "v.h5", shorter))
