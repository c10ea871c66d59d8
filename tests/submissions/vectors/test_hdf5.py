import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.errors import UserError
from submissions.formats.submission import write_submission
from submissions.vectors.files import Vectors, read_vectors, write_vectors
from submissions.vectors.hdf5 import create_hdf5

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


def vectors(path: Path) -> None:
    write_vectors(path, IDS, [np.ones((50, 256), np.float32)] * 2)


def submission(path: Path) -> None:
    part = Vectors(IDS, np.ones((100, 256), np.float32), np.zeros(100, bool))
    write_submission(path, part, part)


@pytest.mark.parametrize("write", [vectors, submission])
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


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    vectors(tmp_path / "v.h5")
    assert read_vectors(tmp_path / "v.h5").ids == IDS
